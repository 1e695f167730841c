//! What a folder says about its model is obeyed or refused, never passed over: how sentences are pooled, what
//! scores mean, how pixels are scaled. Hidden states and scores are held against transformers elsewhere; what
//! is made of them is computed here by hand.

use crate::{SMALL, Scratch, refused, session, strings};
use regard_hub::Batch;
use regard_models::Pixels;
use regard_runtime::{Prompt, TooLong, Which};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const TEXT: &str = "a cat sat";

/// A BERT, and the folder of a sentence-transformer around it.
fn sentence_transformer(pooling: Value) -> Scratch {
    let bert = Scratch::model("bert_masked", SMALL);
    let module = |name: &str| format!("sentence_transformers.models.{name}");
    let modules = json!([
        { "idx": 0, "name": "0", "path": "", "type": module("Transformer") },
        { "idx": 1, "name": "1", "path": "1_Pooling", "type": module("Pooling") },
        { "idx": 2, "name": "2", "path": "2_Normalize", "type": module("Normalize") },
    ]);
    bert.put("modules.json", &modules.to_string());
    bert.put("1_Pooling/config.json", &pooling.to_string());
    bert
}

fn embedded(model: &Scratch, text: &str) -> Vec<f32> {
    session(model.path()).embed(&strings(&[text]), TooLong::Refuse).unwrap().remove(0).vector
}

fn unembedded(model: &Scratch) -> String {
    let message = session(model.path()).embed(&strings(&[TEXT]), TooLong::Refuse).unwrap_err().to_string();
    message.replace(model.path(), "HERE")
}

/// The hidden states of a text, a row for each token.
fn hidden(model: &Scratch, text: &str) -> Vec<Vec<f32>> {
    let mut own = session(model.path());
    let ids = own.companions().encode(text).unwrap();
    let answers = own.forward(&Batch { ids: vec![ids], ..Batch::default() }, &[]).unwrap();
    let hidden = answers.iter().find(|answer| answer.name == "hidden").unwrap();
    hidden.numbers.chunks(*hidden.shape.last().unwrap()).map(<[f32]>::to_vec).collect()
}

fn unit(numbers: &[f64]) -> Vec<f64> {
    let length = numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
    numbers.iter().map(|x| x / length).collect()
}

fn agree(got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    let apart = got.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
}

#[test]
fn sentences_are_pooled_as_their_folder_says() {
    let rows = hidden(&sentence_transformer(json!({})), TEXT);
    let first = unit(&rows[0].iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    let mean: Vec<f64> = (0..rows[0].len())
        .map(|at| rows.iter().map(|row| f64::from(row[at])).sum::<f64>() / rows.len() as f64)
        .collect();
    let mean = unit(&mean);
    for (pooling, expected) in [
        (json!({ "embedding_dimension": 24, "pooling_mode": "cls", "include_prompt": true }), &first),
        (json!({ "pooling_mode": ["cls"] }), &first),
        (json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false }), &first),
        (json!({ "embedding_dimension": 24, "pooling_mode": "mean" }), &mean),
        (json!({ "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true }), &mean),
        (json!({}), &mean),
    ] {
        agree(&embedded(&sentence_transformer(pooling), TEXT), expected);
    }
    // Without modules.json the file alone decides.
    let bare = sentence_transformer(json!({ "pooling_mode": "cls" }));
    fs::remove_file(bare.0.join("modules.json")).unwrap();
    agree(&embedded(&bare, TEXT), &first);
}

#[test]
fn other_ways_to_make_a_sentence_are_refused() {
    for (pooling, modes) in [
        (json!({ "pooling_mode": "median" }), "\"median\""),
        (json!({ "pooling_mode": ["cls", "median"] }), "[\"cls\",\"median\"]"),
        (json!({ "pooling_mode": [] }), "nothing"),
        (json!({ "pooling_mode": 3 }), "3"),
    ] {
        assert_eq!(
            unembedded(&sentence_transformer(pooling)),
            format!(
                "HERE/1_Pooling/config.json: the vector of a text is made of {modes}; embed makes it of one or several of \
                 cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken"
            )
        );
    }
    let dense = sentence_transformer(json!({ "pooling_mode": "mean" }));
    let modules = fs::read_to_string(dense.0.join("modules.json")).unwrap();
    dense.put("modules.json", &modules.replace("models.Normalize", "models.LSTM"));
    assert_eq!(
        unembedded(&dense),
        "HERE/modules.json: module 2 is `sentence_transformers.models.LSTM` at `2_Normalize`, which embed has not; take a \
         model of Transformer and Pooling, then any of Dense, Normalize and Dropout"
    );
    dense.put(
        "modules.json",
        &modules.replace("models.Normalize", "models.Dense").replace("2_Norm", "2_Dense/../2_Norm"),
    );
    assert!(unembedded(&dense).contains("which embed has not"), "a path that leads elsewhere");
    dense.put("modules.json", &modules.replace("models.Normalize", "models.Dense"));
    for (config, what) in [
        (json!({ "in_features": 24 }), "`out_features` is null; it should be a whole number above 0"),
        (json!({ "in_features": 24, "out_features": 5, "use_residual": true }), "`use_residual` is true"),
        (
            json!({ "in_features": 24, "out_features": 5, "activation_function": "mine.Swish" }),
            "`activation_function` is \"mine.Swish\"; embed has those of torch.nn.modules that are called Identity, Tanh",
        ),
        (json!({ "module_input_name": "token_embeddings" }), "`module_input_name` is \"token_embeddings\""),
    ] {
        dense.put("2_Normalize/config.json", &config.to_string());
        let message = unembedded(&dense);
        assert!(message.starts_with(&format!("HERE/2_Normalize/config.json: {what}")), "{message}");
    }
    // What was lost on the way is missed, and nothing is taken for it.
    let lost = sentence_transformer(json!({ "pooling_mode": "cls" }));
    fs::remove_dir_all(lost.0.join("1_Pooling")).unwrap();
    assert!(
        unembedded(&lost)
            .starts_with("HERE/1_Pooling/config.json: modules.json names this file, and it is not")
    );
    let outside = sentence_transformer(json!({}));
    outside.put("modules.json", &modules.replace("1_Pooling", "../1_Pooling"));
    assert!(unembedded(&outside).starts_with("HERE/modules.json: module 1 is "));
}

#[test]
fn a_sentence_is_as_long_as_its_folder_allows() {
    let bert = sentence_transformer(json!({ "pooling_mode": "mean" }));
    bert.put(
        "sentence_bert_config.json",
        &json!({ "max_seq_length": 5, "do_lower_case": false }).to_string(),
    );
    let message = unembedded(&bert);
    assert_eq!(message, "text 1 has 9 tokens, the model has room for 5; shorten it, or say --cut");
    let cut = session(bert.path()).embed(&strings(&[TEXT]), TooLong::Cut).unwrap();
    assert_eq!(cut[0].tokens, 5);
    // Newer folders leave it to the tokenizer; one without a limit says a very large number.
    fs::remove_file(bert.0.join("sentence_bert_config.json")).unwrap();
    bert.put("tokenizer_config.json", &json!({ "model_max_length": 6 }).to_string());
    assert!(unembedded(&bert).contains("the model has room for 6"));
    bert.put("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    let whole = embedded(&bert, TEXT);

    bert.put("sentence_bert_config.json", &json!({ "do_lower_case": true }).to_string());
    assert_eq!(embedded(&bert, "A CAT sat"), whole);
    let prompts = json!({ "prompts": { "query": "a cat " }, "default_prompt_name": "query" });
    bert.put("config_sentence_transformers.json", &prompts.to_string());
    assert_eq!(embedded(&bert, "sat"), whole);
    bert.put(
        "1_Pooling/config.json",
        &json!({ "pooling_mode": "mean", "include_prompt": false }).to_string(),
    );
    // The prompt is read, and left out of the vector.
    let rows = hidden(&bert, "a cat sat");
    let prompt = session(bert.path()).companions().encode("a cat ").unwrap().len();
    let kept = &rows[prompt..];
    let mean: Vec<f64> = (0..rows[0].len())
        .map(|at| kept.iter().map(|row| f64::from(row[at])).sum::<f64>() / kept.len() as f64)
        .collect();
    agree(&embedded(&bert, "sat"), &unit(&mean));
    let named = |name: &str| {
        let found = session(bert.path()).embed_with(&strings(&["sat"]), TooLong::Refuse, Prompt::Named(name));
        found
            .map(|mut all| all.remove(0).vector)
            .map_err(|error| error.to_string().replace(bert.path(), "HERE"))
    };
    assert_eq!(named("query").unwrap(), embedded(&bert, "sat"));
    assert_eq!(
        named("passage").unwrap_err(),
        "HERE/config_sentence_transformers.json: no prompt is called \"passage\"; there are query"
    );
}

#[test]
fn several_labels_have_a_probability_each() {
    let bert = Scratch::model("bert_classify", SMALL);
    let classified =
        || session(bert.path()).classify_texts(&strings(&[TEXT]), TooLong::Refuse).unwrap().remove(0);
    let one = classified();
    assert!((one.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    bert.config(json!({ "problem_type": "multi_label_classification" }));
    let several = classified();
    assert_eq!(several.scores, one.scores);
    for (probability, score) in several.probabilities.iter().zip(&several.scores) {
        assert!((probability - 1.0 / (1.0 + (-f64::from(*score)).exp())).abs() < 1e-15);
    }
    assert!((several.probabilities.iter().sum::<f64>() - 1.0).abs() > 1e-3, "they do not add up to 1");
    bert.config(json!({ "problem_type": "regression" }));
    let values = classified();
    assert_eq!(values.scores, one.scores);
    assert!(values.probabilities.is_empty(), "values have no probabilities");
}

#[test]
fn the_middle_is_taken_where_the_folder_says_so() {
    let vit = Scratch::model("vit", SMALL);
    let size = Pixels { channels: 3, height: 10, width: 14 };
    let path = vit.0.join("steps.png");
    // Each pixel says where it stands: 3 for each row, 1 for each column.
    let steps =
        |width, height| image::GrayImage::from_fn(width, height, |x, y| image::Luma([(3 * y + x) as u8]));
    let read = |asked: Value| {
        vit.put("preprocessor_config.json", &asked.to_string());
        let scale = session(vit.path()).companions().pixels.clone().unwrap();
        scale.read(&path, size).unwrap()[..140].iter().map(|x| (x * 255.0).round() as i32).collect::<Vec<_>>()
    };
    let asked = |size: Value| {
        json!({ "do_center_crop": true, "crop_size": { "height": 10, "width": 14 }, "size": size, "do_normalize": false,
            "do_resize": !size.is_null() })
    };
    // 21 by 17: 7 columns and 7 rows too many, of which the larger half is on the right and below.
    steps(21, 17).save(&path).unwrap();
    let whole = read(asked(Value::Null));
    assert_eq!((whole[0], whole[13], whole[139]), (3 * 3 + 3, 3 * 3 + 16, 3 * 12 + 16));
    // As large as asked for already, by the shorter edge or by both.
    assert_eq!(read(asked(json!({ "shortest_edge": 17 }))), whole);
    assert_eq!(read(asked(json!({ "height": 17, "width": 21 }))), whole);
    // Made half as large: 10 by 16 of 20 by 32, one column less on either side.
    image::GrayImage::from_fn(32, 20, |x, _| image::Luma([8 * (x / 2) as u8])).save(&path).unwrap();
    let half = read(asked(json!({ "shortest_edge": 10 })));
    assert!((half[0] - 8).abs() <= 2 && (half[13] - 8 * 14).abs() <= 2, "{half:?}");
    // Too small: black around it.
    steps(4, 4).save(&path).unwrap();
    let small = read(asked(Value::Null));
    assert_eq!((small[0], small[3 * 14 + 5], small[6 * 14 + 8], small[7 * 14 + 8]), (0, 0, 9 + 3, 0));
    assert_eq!(small[3 * 14 + 6], 1);
}

/// A picture of one grey.
fn picture(model: &Scratch, width: u32, height: u32) -> PathBuf {
    let path = model.0.join("grey.png");
    image::GrayImage::from_pixel(width, height, image::Luma([51])).save(&path).unwrap();
    path
}

#[test]
fn pixels_are_prepared_as_the_folder_says() {
    let vit = Scratch::model("vit", SMALL);
    let size = Pixels { channels: 3, height: 10, width: 14 };
    let scale = |asked: Value| {
        vit.put("preprocessor_config.json", &asked.to_string());
        session(vit.path()).companions().pixels.clone().unwrap()
    };
    let first = |asked: Value| scale(asked).read(&picture(&vit, 14, 10), size).unwrap()[0];
    // 51 is a fifth of 255.
    for (asked, expected) in [
        (json!({}), (0.2 - 0.5) / 0.5),
        (json!({ "do_normalize": false, "image_mean": [0.5, 0.5, 0.5] }), 0.2),
        (json!({ "do_normalize": false, "do_rescale": false }), 51.0),
        (
            json!({ "do_normalize": true, "do_rescale": false, "image_mean": [50, 0, 0], "image_std": [2, 1, 1] }),
            0.5,
        ),
        (json!({ "rescale_factor": 1.0 / 127.5, "image_mean": [1, 1, 1], "image_std": [1, 1, 1] }), -0.6),
        (
            json!({ "rescale_factor": 1.0 / 255.0, "do_normalize": false, "size": { "height": 10, "width": 14 } }),
            0.2,
        ),
    ] {
        let got = f64::from(first(asked.clone()));
        assert!((got - expected).abs() < 1e-4 * expected.abs(), "{asked}: {got} for {expected}");
    }
    // A picture of another size is brought to the model's, unless that is forbidden.
    let other = picture(&vit, 28, 20);
    assert!((scale(json!({ "resample": 3 })).read(&other, size).unwrap()[0] + 0.6).abs() < 1e-6);
    let message = scale(json!({ "do_resize": false })).read(&other, size).unwrap_err().to_string();
    assert!(
        message.ends_with("is 28x20, the model takes 14x10 and no other; bring it to that size"),
        "{message}"
    );

    let refusal = |asked: Value| {
        vit.put("preprocessor_config.json", &asked.to_string());
        let message = refused(vit.path(), Which::Exported);
        message.split_once("preprocessor_config.json: ").unwrap().1.to_owned()
    };
    assert_eq!(
        refusal(json!({ "resample": 0 })),
        "`resample` is 0, which is not done here; what can be done is 1 (Lanczos), 2 (bilinear) and 3 (bicubic)"
    );
    assert_eq!(
        refusal(json!({ "do_pad": true })),
        "`do_pad` is true, which is not done here; give the model pictures that were prepared so, and set it to false"
    );
    assert_eq!(
        refusal(json!({ "size": { "shortest_edge": 14 } })),
        "`size` is {\"shortest_edge\":14}, which is not done here; without `do_center_crop`, only one height and one width \
         for all pictures can be used"
    );
    assert_eq!(
        refusal(json!({ "do_center_crop": true, "crop_size": 14 })),
        "`crop_size` is 14, expected that of the model, height 10 and width 14; put the file of this model there"
    );
    let crop = json!({ "height": 10, "width": 14 });
    assert_eq!(
        refusal(json!({ "do_center_crop": true, "crop_size": crop, "size": { "longest_edge": 20 } })),
        "`size` is {\"longest_edge\":20}, which is not done here; what can be done is a height and a width, or a \
         `shortest_edge`"
    );
    assert_eq!(
        refusal(
            json!({ "image_processor_type": "CLIPImageProcessor", "do_resize": true, "do_center_crop": true })
        ),
        "it is one of a CLIPImageProcessor, and does not say `size`; put the file of this model there, with all of its \
         settings"
    );
    assert_eq!(
        refusal(json!({ "size": 14 })),
        "`size` is 14, expected that of the model, height 10 and width 14; put the file of this model there"
    );
    assert_eq!(
        refusal(json!({ "rescale_factor": 0 })),
        "`rescale_factor` is 0, expected a number above 0; put the file of this model there"
    );
    assert_eq!(
        refusal(json!({ "do_rescale": "yes" })),
        "`do_rescale` is \"yes\", expected true or false; put the file of this model there"
    );
    assert!(
        refusal(json!({ "image_std": [0, 1, 1] })).contains("expected a number for each of the 3 channels")
    );
}
