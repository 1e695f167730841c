//! Mechanisms by recipe: a model is trained with what a recipe asks for, saved in our own form, opened again,
//! and keeps its promises; what a family cannot have is refused with the reason before anything is written.

use crate::scratch::{LANGUAGE, Scratch};
use regard_models::Registry;

/// Small recipes, each with overrides for mechanisms that its family does not have of its own.
const ASKED: [&[&str]; 4] = [
    &[
        "model.positions=clipped",
        "model.reach=3",
        "model.scale=learned",
        "model.norm_place=post",
        "train.hidden_dropout=0.1",
    ],
    &[
        "model.positions=buckets",
        "model.attention=gumbel-straight-through",
        "model.temperature=0.7",
        "model.norm=rms",
    ],
    &[
        "model.positions=alibi",
        "model.attention=straight-through",
        "model.activation=gated-silu",
        "model.scale=0.2",
    ],
    &[
        "model.positions=rotary",
        "model.rotary_base=100.0",
        "model.groups=1",
        "model.head_width=6",
        "model.window=5",
    ],
];

#[test]
fn a_recipe_sets_the_mechanisms_of_blocks() {
    let scratch = Scratch::new("mechanisms");
    scratch.write("text.txt", "to be or not to be, that is the question. ".repeat(40));
    scratch.write("recipe.toml", LANGUAGE);
    for (number, overrides) in ASKED.iter().enumerate() {
        let run = format!("run{number}");
        let arguments = [&["train", "recipe.toml", "train.steps=4", "--out", &run][..], overrides].concat();
        let page = scratch.page(&arguments);
        assert!(page["result"]["metrics"]["loss"].is_number(), "{page}");
        let described = scratch.page(&["describe", &run, "--tokens", "8"]);
        assert_eq!(described["family"], "regard-gpt", "{overrides:?}");
        for command in ["prove", "audit"] {
            let judged = scratch.page(&[command, &run]);
            assert_eq!(judged["holds"], true, "{overrides:?}: {judged}");
        }
        let config = described["config"].clone();
        for given in overrides.iter().filter_map(|given| given.strip_prefix("model.")) {
            let (key, value) = given.split_once('=').unwrap();
            let kept = match key {
                // Kept together, as they always were.
                "positions" if value == "rotary" => config["rotary"].is_object(),
                "rotary_base" => config["rotary"]["base"] == 100.0,
                _ => match value.parse::<f64>() {
                    Ok(number) => config[key].as_f64() == Some(number),
                    Err(_) => config[key] == *value,
                },
            };
            assert!(kept, "{given} is not in {config}");
        }
        scratch.printed(&["generate", &run, "--prompt", "to be", "--max", "4", "--greedy"]);
    }
}

#[test]
fn families_and_their_keys_are_listed() {
    let scratch = Scratch::new("families");
    let all = scratch.page(&["families"]);
    let names: Vec<&str> =
        all["families"].as_array().unwrap().iter().map(|family| family["name"].as_str().unwrap()).collect();
    let registry = Registry::standard();
    assert_eq!(names, registry.families().map(|family| family.name()).collect::<Vec<_>>());
    let text = scratch.printed(&["families", "vit"]);
    for words in [
        "learns images",
        "model_type vit, deit, dinov2, regard-vit",
        "patch",
        "none, learned, sinusoidal, rotary",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(scratch.refused(&["families", "vitt"]).contains("did you mean `vit`?"));
}

#[test]
fn what_a_family_cannot_have_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("refused");
    scratch.write("text.txt", "to be or not to be, that is the question. ".repeat(40));
    scratch.write("recipe.toml", LANGUAGE);
    let refusal = |overrides: &[&str]| scratch.refused(&[&["train", "recipe.toml"][..], overrides].concat());
    assert!(refusal(&["model.norm=batch"]).contains("BatchNorm mixes later positions into earlier ones"));
    assert!(refusal(&["model.reach=3"]).contains("`reach` is given without positions = \"clipped\""));
    assert!(refusal(&["model.positions=cliped"]).contains("did you mean `clipped`?"));
    assert!(refusal(&["model.latents=3"]).contains("a model of the family `gpt` has no `latents`"));
    assert!(
        refusal(&["model.family=bert"])
            .contains("the task `language` with a model of the family `bert`; give model.family = \"gpt\"")
    );
    assert!(!scratch.path("runs").exists());
}
