//! The study in seconds: every arm runs, answers every question, and what it says goes on paper.

use super::*;
use regard_data::biographies;
use regard_device::Level;
use regard_engine::Cpu;
use regard_train::Silent;

fn tiny() -> StudySettings {
    let stage = |epochs| Stage { epochs, batch: 32, lr: 3e-3, decay_epochs: epochs };
    StudySettings {
        layers: 2,
        width: 16,
        heads: 2,
        latents: 12,
        pretrain: stage(1),
        alone: stage(1),
        after: stage(1),
        ..StudySettings::small()
    }
}

#[test]
fn every_arm_answers_every_question() {
    let data = StudyData::small().unwrap();
    let cpu = Cpu::with(2, Level::best()).unwrap();
    let study = run(&data, &tiny(), &cpu, &mut Silent, None).unwrap();
    assert_eq!(study.arms.iter().map(|one| one.arm).collect::<Vec<_>>(), Arm::ALL);
    assert!((0.03..0.07).contains(&study.baseline.1), "{:?}", study.baseline);
    for result in &study.arms {
        assert_eq!((result.dev.len(), result.test.len()), (data.dev.len(), data.test.len()));
        assert_eq!(result.reading_loss().is_none(), result.arm == Arm::Alone);
        assert!(result.answering_loss().unwrap().is_finite());
        assert!(result.dev.iter().all(|answer| answer.answered.chars().count() <= ANSWER));
    }
    let table = study.table();
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.contains("pretrained, Perceiver") && table.contains("always “"), "{table}");
    let sections = study.sections(&data);
    assert_eq!(sections.len(), 6);
    assert!(sections[2].html.contains("answers are wrong"));
    let line = data.line_of(&study.arms[0].dev.iter().find(|answer| !answer.is_right()).unwrap().question);
    let line = regard_picture::escaped(line.unwrap());
    assert!(sections[2].html.contains(&line), "the line of the person stands beside");
    let page = study.report("A study", "Of invented people.", &data);
    assert_eq!(regard_picture::check::fault(&page), None);
    assert!(page.contains("<svg") && page.contains("Loss while reading") && !page.contains("http"), "{page}");

    let folder = std::env::temp_dir().join(format!("regard-study-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for result in &study.arms {
        let file = folder.join("predictions.txt");
        result.write_predictions(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), data.test.len());
        // Saved and opened again, it says the same.
        let model = folder.join(result.arm.name());
        result.save(&data.tokenizer, &model).unwrap();
        let text = ArmResult::save(result, &data.tokenizer, &file).unwrap_err().to_string();
        assert!(text.contains("predictions.txt"), "{text}");
        let opened = regard_hub::open(model.to_str().unwrap(), &regard_models::Registry::standard()).unwrap();
        let mut store = Store::new(0);
        opened.load_into(&mut store).unwrap();
        let tokenizer = Tokenizer::of_model(&model, 0).unwrap();
        let mut answerer =
            Answerer::new(&*opened.model, &tokenizer, 5, ANSWER, Precision::F32, &mut store, &cpu).unwrap();
        let asked: Vec<&str> = data.dev.iter().take(7).map(|question| question.text.as_str()).collect();
        let answered: Vec<&String> = result.dev.iter().take(7).map(|answer| &answer.answered).collect();
        assert_eq!(
            answerer.answer(&asked, &mut store, &mut unheard).unwrap().iter().collect::<Vec<_>>(),
            answered
        );
    }
    std::fs::remove_dir_all(&folder).ok();
}

#[test]
fn a_study_can_be_stopped() {
    let data = StudyData::small().unwrap();
    let cpu = Cpu::with(1, Level::best()).unwrap();
    let stop = AtomicBool::new(true);
    let study = run(&data, &tiny(), &cpu, &mut Silent, Some(&stop)).unwrap();
    assert!(study.interrupted && study.arms.is_empty());
}

#[test]
fn the_most_frequent_answer_and_the_line() {
    let data = StudyData::small().unwrap();
    let (place, right) = data.most_frequent();
    assert_eq!(right, data.dev.iter().filter(|question| question.place == place).count());
    for Question { text, place } in data.train.iter().chain(&data.dev) {
        assert!(data.line_of(text).unwrap().contains(place), "{text}");
    }
    assert_eq!(data.line_of("Where was Nobody At All born?"), None);
    assert_eq!(data.line_of("Why?"), None);
}

#[test]
fn files_make_a_vocabulary_of_all_their_characters() {
    let folder = std::env::temp_dir().join(format!("regard-study-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    let text = file("text.txt", "ab was in c\n");
    let (train, dev) = (file("train.tsv", "ab?\tc\n"), file("dev.tsv", "ba?\td\n"));
    let test = file("test.tsv", "e?\n\n");
    let files = StudyFiles { text: &text, train: &train, dev: &dev, test: Some(&test) };
    let data = StudyData::open(files, Vocabulary::Characters).unwrap();
    // Padding, mark and the end of a line; a space; a, b, c, i, n, s, w of the line; d, e and ? of the
    // questions.
    assert_eq!(data.tokenizer.vocabulary(), 3 + 1 + 7 + 3);
    assert_eq!(data.test, ["e?"]);
    assert!(data.tokenizer.encode_bare("e?\nd").is_ok());
    std::fs::remove_dir_all(&folder).ok();
}

#[test]
fn what_does_not_fit_is_said() {
    let data = StudyData::small().unwrap();
    let cpu = Cpu::with(1, Level::best()).unwrap();
    let short = StudySettings { context: 8, latents: 4, ..tiny() };
    let text = run(&data, &short, &cpu, &mut Silent, None).err().unwrap().to_string();
    assert!(text.ends_with("the model has room for 8: give it a longer context"), "{text}");

    let text = StudyData::invented(
        biographies::Settings { templates: 0, ..Default::default() },
        Vocabulary::Characters,
    );
    assert_eq!(text.unwrap_err().to_string(), "there are no 0 kinds of sentences; ask for 1 to 12");
    let none = Path::new("no-such-folder/text.txt");
    let refused = StudyData::open(
        StudyFiles { text: none, train: none, dev: none, test: None },
        Vocabulary::Characters,
    );
    let text = refused.unwrap_err().to_string();
    assert!(text.starts_with("cannot open no-such-folder/text.txt: "), "{text}");

    let model = model(&tiny(), Arm::Rotary, data.tokenizer.vocabulary()).unwrap().without_dropout().unwrap();
    let mut store = Store::new(0);
    let bytes = Tokenizer::bytes();
    let refused = Answerer::new(&*model, &bytes, 1, 5, Precision::F32, &mut store, &cpu);
    assert_eq!(
        refused.err().unwrap().to_string(),
        "the tokenizer has no mask, which closes questions; use a model that learned to answer"
    );
    let mut answerer =
        Answerer::new(&*model, &data.tokenizer, 1, 5, Precision::F32, &mut store, &cpu).unwrap();
    let long = "was ".repeat(40);
    let text = answerer.answer(&[&long], &mut store, &mut unheard).unwrap_err().to_string();
    assert!(text.contains("has 41 tokens; the model has room for 40, its answer included"), "{text}");
}
