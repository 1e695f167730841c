//! Every mistake in a recipe has a text that says where and what to do, and a recipe that was written reads
//! back equal.

use super::super::*;
use regard_models::Registry;

fn text(toml: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
    Recipe::parse(toml, "my.toml", &overrides, &Registry::standard()).unwrap_err().to_string()
}

fn read(toml: &str, overrides: &[&str]) -> Recipe {
    let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
    Recipe::parse(toml, "my.toml", &overrides, &Registry::standard()).unwrap()
}

#[test]
fn an_unknown_key_has_a_line_and_a_neighbour() {
    assert_eq!(
        text("seed = 1\n[train]\nlr = 0.1\nbacth = 3\n", &[]),
        "my.toml:4: there is no key `bacth` in [train]; did you mean `batch`?"
    );
    assert_eq!(
        text("seed = 1\n[evaluate]\nzzz = 3\n", &[]),
        "my.toml:3: there is no key `zzz` in [evaluate]; keys here are batch, beams, most, baseline"
    );
    assert_eq!(text("\nsede = 1\n", &[]), "my.toml:2: there is no key `sede`; did you mean `seed`?");
    assert_eq!(
        text("[training]\nlr = 1\n", &[]),
        "my.toml:1: there is no table [training]; did you mean `train`?"
    );
}

#[test]
fn an_unknown_word_has_a_neighbour() {
    assert_eq!(
        text("\n[model]\nfamily = \"gtp\"\n", &[]),
        "my.toml:3: `gtp` is not known here; did you mean `gpt`?"
    );
    let registry = Registry::standard();
    let known: Vec<&str> = registry.families().map(|family| family.name()).collect();
    assert_eq!(
        text("\n[model]\nfamily = \"mamba-large\"\n", &[]),
        format!("my.toml:3: `mamba-large` is not known here; known are {}", known.join(", "))
    );
}

#[test]
fn keys_of_models_are_those_of_the_families() {
    assert_eq!(
        text("\n[model]\nlayer = 2\n", &[]),
        "my.toml:3: there is no key `layer` in [model]; did you mean `layers`?"
    );
    assert_eq!(
        text("seed = 1\n[model]\nfamily = \"bert\"\nheads = \"two\"\n", &[]),
        "my.toml:4: `heads` in [model] is the text \"two\"; it should be a whole number that is not negative"
    );
    assert_eq!(
        text("\n[model]\nnorm = \"rns\"\n", &[]),
        "my.toml:3: `rns` is not known here; did you mean `rms`?"
    );
    assert_eq!(
        text("", &["model.positions=rotry"]),
        "model.positions=rotry: `rotry` is not known here; did you mean `rotary`?"
    );
    assert_eq!(
        text("", &["model.family=gtp"]),
        "model.family=gtp: `gtp` is not known here; did you mean `gpt`?"
    );
}

#[test]
fn a_wrong_type_says_expected_and_got() {
    assert_eq!(
        text("\n[train]\nlr = \"fast\"\n", &[]),
        "my.toml:3: `lr` in [train] is the text \"fast\"; it should be a number"
    );
    assert_eq!(
        text("\n[train]\nbatch = -1\n", &[]),
        "my.toml:3: `batch` in [train] is the whole number -1; it should be a whole number that is not negative"
    );
    assert_eq!(
        text("\n[data]\nshuffle = 1\n", &[]),
        "my.toml:3: `shuffle` in [data] is the whole number 1; it should be true or false"
    );
    assert_eq!(
        text("\n[data]\ntrain = \"a.txt\"\n", &[]),
        "my.toml:3: `train` in [data] is the text \"a.txt\"; it should be a list: [ … ]"
    );
}

#[test]
fn broken_toml_has_a_line() {
    let got = text("seed = 1\n[train\nlr = 1\n", &[]);
    assert!(got.starts_with("my.toml:2: "), "{got}");
    assert!(got.ends_with("; see the TOML format, https://toml.io"), "{got}");
}

#[test]
fn overrides_go_through_the_same_checks() {
    assert_eq!(read("[train]\nlr = 0.1\nbatch = 4\n", &["train.lr=1e-3"]).train.lr, 1e-3);
    assert_eq!(read("", &["model.positions=rotary"]).model.keys["positions"].as_str(), Some("rotary"));
    assert_eq!(read("", &["data.train=../a b.txt"]).data.train, [PathBuf::from("../a b.txt")]);
    assert_eq!(read("", &["train.betas=[0.9, 0.98]"]).train.betas, [0.9, 0.98]);
    assert_eq!(text("", &["train.lrr=1"]), "train.lrr=1: there is no key `lrr`; did you mean `lr`?");
    assert_eq!(
        text("", &["train.lr=fast"]),
        "train.lr=fast: `train.lr` is the text \"fast\"; it should be a number"
    );
    assert_eq!(
        text("", &["train.lr"]),
        "train.lr: this override has no `=`; write it as key=value: train.lr=1e-3"
    );
    assert_eq!(text("", &["train lr=1"]), "train lr=1: `train lr` is no key; write keys as in train.lr");
}

#[test]
fn nonsense_is_refused() {
    let cases = [
        ("train.batch=0", "a batch of 0 examples; give train.batch at least 1"),
        (
            "train.micro_batch=5",
            "a batch of 32 in micro-batches of 5; choose a micro_batch that divides the batch",
        ),
        ("train.lr=-1.0", "train.lr is -1; give a number that is not negative"),
        ("train.clip=nan", "train.clip is NaN; give a number that is not negative"),
        ("train.weight_decay=inf", "train.weight_decay is inf; give a number that is not negative"),
        ("train.dropout=nan", "train.dropout is NaN; give a number from 0 up to, not including, 1"),
        (
            "train.batch=9223372036854775807",
            "train.batch is 9223372036854775807 examples at once; give at most 65536, and the rest as micro-batches",
        ),
        (
            "evaluate.batch=1000000",
            "evaluate.batch is 1000000 examples at once; give at most 65536, and the rest as micro-batches",
        ),
        (
            "evaluate.beams=100000",
            "evaluate.beams is 100000; give at most 256: each beam has a row of the memory of a text",
        ),
        ("train.dropout=1.0", "train.dropout is 1; give a number from 0 up to, not including, 1"),
        ("data.hold_out=1.5", "data.hold_out is 1.5; give a number from 0 up to, not including, 1"),
        ("train.floor=2.0", "train.floor is 2; give a fraction from 0 to 1"),
        ("train.epochs=0", "a run of no steps; give train.epochs or train.steps at least 1"),
    ];
    for (given, expected) in cases {
        assert_eq!(text("", &[given]), format!("my.toml: {expected}"));
    }
    assert_eq!(
        text("", &["train.warmup_steps=1", "train.warmup_tokens=1"]),
        "my.toml: both train.warmup_steps and train.warmup_tokens; give one of them"
    );
    assert_eq!(
        text("[[stage]]\n[stage.train]\nlr = 1.0\n", &[]),
        "my.toml: stage 1: it has no name; give it one: name = \"pretrain\""
    );
    assert_eq!(
        text("[[stage]]\nname = \"..\"\n", &[]),
        "my.toml: stage 1: it is called `..`; choose another name: its folder is called by it, and that one is taken"
    );
    assert_eq!(
        text("[[stage]]\nname = \"../up\"\n", &[]),
        "my.toml: stage 1: it is called `../up`; leave slashes out: its folder is called by its name"
    );
    assert_eq!(
        text("[[stage]]\nname = \"a\"\n[[stage]]\nname = \"b\"\n[stage.train]\ndropout = 0.3\n", &[]),
        "my.toml: stage 2: its dropout is another than that of the stage before; give train.dropout once, for all stages"
    );
}

#[test]
fn stages_take_over_what_they_do_not_say() {
    let toml = "[train]\nlr = 0.5\nbatch = 7\n[data]\nkind = \"biographies\"\n\
                [[stage]]\nname = \"pretrain\"\n[stage.data]\nform = \"spans\"\n[stage.train]\nlr = 0.25\n\
                [[stage]]\nname = \"finetune\"\n";
    let recipe = read(toml, &["data.people=9"]);
    let stages = recipe.stages();
    assert_eq!(stages.len(), 2);
    assert_eq!((stages[0].train.lr, stages[0].train.batch, stages[0].data.people), (0.25, 7, 9));
    assert_eq!((stages[0].data.form, stages[0].data.kind), (FormRecipe::Spans, DataKind::Biographies));
    assert_eq!((stages[1].name.as_str(), stages[1].train.lr), ("finetune", 0.5));
    assert_eq!(
        text("[[stage]]\nname = \"a\"\n[stage.train]\nbacth = 1\n", &[]),
        "my.toml:4: there is no key `bacth` in [stage.train]; did you mean `batch`?"
    );
}

#[test]
fn what_is_written_reads_back_equal() {
    let toml = "name = \"x\"\n[train]\nlr = 0.0006\nmicro_batch = 16\n[[train.groups]]\npattern = \"head.*\"\nlr = 10.0\n\
                [model]\npositions = \"rotary\"\n[[stage]]\nname = \"one\"\n[stage.from]\nmodel = \"here\"\n";
    let recipe = read(toml, &["data.hold_out=0.1"]);
    let written = recipe.to_toml().unwrap();
    assert_eq!(Recipe::parse(&written, "written", &[], &Registry::standard()).unwrap(), recipe, "{written}");
    let plain = Recipe::default();
    assert_eq!(
        Recipe::parse(&plain.to_toml().unwrap(), "written", &[], &Registry::standard()).unwrap(),
        plain
    );
}

#[test]
fn a_recipe_is_called_as_its_file() {
    let path = std::env::temp_dir().join(format!("regard-recipe-{}-called.toml", std::process::id()));
    Recipe::default().save(&path).unwrap();
    let recipe = Recipe::open(&path, &[], &Registry::standard()).unwrap();
    assert!(recipe.name.ends_with("-called"), "{}", recipe.name);
    std::fs::remove_file(&path).unwrap();
    let missing = Recipe::open(&path, &[], &Registry::standard()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read "), "{missing}");
    let below = Recipe::default().save(path.join("below.toml")).unwrap_err().to_string();
    assert!(below.starts_with("cannot write ") && below.ends_with("; check the path"), "{below}");
    let text = Recipe::parse("", "my.toml", &["train.lrr=1".to_string()], &Registry::standard())
        .unwrap_err()
        .to_string();
    assert_eq!(text, "train.lrr=1: there is no key `lrr`; did you mean `lr`?");
}

#[test]
fn an_override_reaches_into_one_stage() {
    let toml = "[train]\nlr = 0.5\n[[stage]]\nname = \"pretrain\"\n[stage.train]\nepochs = 9\n\
                [[stage]]\nname = \"finetune\"\n[stage.train]\nepochs = 3\n";
    let epochs =
        |over: &[&str]| read(toml, over).stages().iter().map(|one| one.train.epochs).collect::<Vec<_>>();
    assert_eq!(epochs(&["stage.pretrain.train.epochs=2"]), [2, 3]);
    assert_eq!(epochs(&["stage.finetune.train.epochs=1", "stage.pretrain.train.epochs=2"]), [2, 1]);
    let one = read(toml, &["stage.finetune.data.train=a.txt", "stage.finetune.train.lr=1.0"]).stages();
    assert_eq!((one[0].train.lr, one[1].train.lr), (0.5, 1.0));
    assert_eq!(one[1].data.train, [PathBuf::from("a.txt")]);
    // What a run has written is overridden in the same way.
    let written = read(toml, &[]).to_toml().unwrap();
    let again =
        Recipe::parse(&written, "written", &["stage.pretrain.train.epochs=2".into()], &Registry::standard())
            .unwrap();
    assert_eq!((again.stage[0].train.epochs, again.stage[1].train.epochs), (2, 3));

    assert_eq!(
        text(toml, &["stage.pretain.train.epochs=2"]),
        "stage.pretain.train.epochs=2: no stage is called `pretain`; did you mean `pretrain`?"
    );
    assert_eq!(
        text(toml, &["stage.train.epochs=2"]),
        "stage.train.epochs=2: no stage is called `train`; there are `pretrain`, `finetune`"
    );
    assert_eq!(
        text(toml, &["stage.pretrain.train.epohcs=2"]),
        "stage.pretrain.train.epohcs=2: there is no key `epohcs`; did you mean `epochs`?"
    );
    assert_eq!(
        text(toml, &["stage.pretrain.trian.epochs=2"]),
        "stage.pretrain.trian.epochs=2: there is no key `trian`; did you mean `train`?"
    );
    assert_eq!(
        text(toml, &["stage.pretrain.train.lr=fast"]),
        "stage.pretrain.train.lr=fast: `train.lr` is the text \"fast\"; it should be a number"
    );
    assert_eq!(
        text(toml, &["stage.pretrain=2"]),
        "stage.pretrain=2: `stage.pretrain` names no key of a stage; write it as in stage.NAME.train.lr=1e-3"
    );
    assert_eq!(
        text("", &["stage.pretrain.train.lr=1.0"]),
        "stage.pretrain.train.lr=1.0: this recipe has no stages; leave the stage out: train.lr=…"
    );
}

#[test]
fn an_override_that_changes_nothing_is_refused() {
    let toml = "[[stage]]\nname = \"read\"\n[stage.train]\nepochs = 9\nlr = 0.5\n\
                [[stage]]\nname = \"answer\"\n[stage.train]\nepochs = 3\n";
    assert_eq!(
        text(toml, &["train.epochs=2"]),
        "train.epochs=2: every stage has a `train.epochs` of its own, so this changes nothing; name the stage: \
         stage.read.train.epochs=2"
    );
    // One of them has no rate of its own: that one changes.
    let rates: Vec<f64> = read(toml, &["train.lr=0.25"]).stages().iter().map(|one| one.train.lr).collect();
    assert_eq!(rates, [0.5, 0.25]);
}
