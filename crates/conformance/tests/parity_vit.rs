//! ViT, DeiT and DINOv2 against transformers: logits, hidden states, every gradient and ten steps of
//! training, and images of another size than that of the weights, on the goldens of `goldens/parity`.

use regard::Result;
use regard::prelude::*;
use regard_conformance::parity::{Golden, Tensors, close, folder, json};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::grid::interpolate_positions;
use regard_models::import::vit::{config_from_json, config_to_json, imports};
use regard_models::{Vit, VitConfig, VitForm};

/// Of the largest number.
const FORWARD: f64 = 1e-4;

fn image(g: &mut Graph, config: &VitConfig) -> regard::graph::Result<Var> {
    let b = g.open('B', 3)?;
    g.input("image", DType::F32, shape![b, config.channels, config.image[0], config.image[1]])
}

fn feed(program: &mut Program, answers: &Tensors, set: &str) -> Result<()> {
    Ok(program.set_array("image", answers.get(&format!("{set}.pixel_values")))?)
}

#[test]
fn scores_and_streams_are_those_of_transformers() -> Result<()> {
    for case in ["vit", "deit", "deit_taught", "dinov2", "dinov2_gated"] {
        scores_and_streams(case)?;
    }
    Ok(())
}

fn scores_and_streams(case: &str) -> Result<()> {
    let Golden { config, weights, answers } = Golden::read(case);
    let vit = Vit::new(config_from_json(&config)?)?;
    let mut g = Graph::inference();
    let image = image(&mut g, vit.config())?;
    let logits = vit.logits(&mut g, image)?;
    g.output("logits", logits)?;
    let layers = vit.config().layers;
    let mut taps = vec!["embedding.stream".to_string()];
    taps.extend((0..layers).map(|layer| format!("block.{layer}.stream")));
    taps.push("final_norm.stream".into());
    let taps: Vec<&str> = taps.iter().map(String::as_str).collect();
    let mut theirs: Vec<String> = (0..=layers).map(|layer| format!("hidden.{layer}")).collect();
    theirs.push("hidden.last".into());
    let mut store = Store::new(0);
    let mut program = Program::new(g, &taps, &mut store, &device())?;
    weights.fill(&mut store, &imports(vit.config()));
    for set in ["one", "batch"] {
        feed(&mut program, &answers, set)?;
        program.run(&mut store)?;
        for (ours, theirs) in taps.iter().zip(&theirs) {
            let (got, wanted) = (program.array(ours)?, answers.get(&format!("{set}.{theirs}")));
            assert_eq!(got.dims(), wanted.dims());
            close(&format!("{case} {set}: {theirs}"), got.data(), wanted.data(), FORWARD);
        }
        let (got, wanted) = (program.array("logits")?, answers.get(&format!("{set}.logits")));
        assert_eq!(got.dims(), wanted.dims());
        close(&format!("{case} {set}: logits"), got.data(), wanted.data(), FORWARD);
    }
    Ok(())
}

#[test]
fn classes_are_learned_as_in_pytorch() -> Result<()> {
    for case in ["vit", "deit", "dinov2_gated"] {
        trained(case)?;
    }
    Ok(())
}

fn trained(case: &str) -> Result<()> {
    let golden = Golden::read(case);
    let vit = Vit::new(config_from_json(&golden.config)?)?;
    let (dims, targets) = golden.answers.integers("train.targets");
    let loss = |g: &mut Graph| {
        let image = image(g, vit.config())?;
        let targets = g.input("targets", DType::I32, shape![g.shape(image)[0].clone()])?;
        let scale = g.input("scale", DType::F32, shape![])?;
        vit.loss(g, image, targets, scale)
    };
    let logits = |g: &mut Graph| {
        let image = image(g, vit.config())?;
        vit.logits(g, image)
    };
    let set = |program: &mut Program| {
        feed(program, &golden.answers, "train")?;
        if program.graph().inputs().any(|(name, _)| name == "targets") {
            program.set_i32("targets", &dims, &targets)?;
            program.set_f32("scale", &[], &[1.0 / targets.len() as f32])?;
        }
        Ok(())
    };
    check_training(&golden, &imports(vit.config()), loss, logits, set)
}

#[test]
fn images_of_another_size_are_seen_as_in_transformers() -> Result<()> {
    for (case, set) in [
        ("vit_resized", "tall"),
        ("vit_resized", "small"),
        ("vit_resized", "same"),
        ("dinov2", "tall"),
        ("dinov2", "small"),
        ("dinov2_gated", "tall"),
    ] {
        let Golden { config, weights, answers } = Golden::read(case);
        let own = config_from_json(&config)?;
        let dims = answers.get(&format!("{set}.pixel_values")).dims();
        let form = match own.form {
            VitForm::Dinov2 { scale, .. } => VitForm::Dinov2 { scale, learned: Some(own.grid()) },
            other => other,
        };
        let vit = Vit::new(VitConfig { image: [dims[2], dims[3]], form, ..own })?;
        let mut g = Graph::inference();
        let image = image(&mut g, vit.config())?;
        let logits = vit.logits(&mut g, image)?;
        g.output("logits", logits)?;
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &device())?;
        for import in imports(&own) {
            let numbers = weights.ours(&import, "");
            let numbers = match &*import.ours {
                "position_embedding.weight" if form == VitForm::Plain => {
                    interpolate_positions(&numbers, own.width, own.grid(), vit.config().grid())?
                }
                _ => numbers,
            };
            store.set_f32(&import.ours, &numbers)?;
        }
        feed(&mut program, &answers, set)?;
        program.run(&mut store)?;
        let wanted = answers.get(&format!("{set}.logits")).data();
        close(&format!("{case} {set}: logits"), program.array("logits")?.data(), wanted, FORWARD);
    }
    Ok(())
}

#[test]
fn tables_of_positions_are_interpolated_as_in_pytorch() -> Result<()> {
    let answers = Tensors::read(&folder("vit_resized").join("golden.safetensors"));
    for (from, to) in [([2, 8], [4, 4]), ([5, 7], [7, 5]), ([1, 6], [3, 2]), ([3, 3], [7, 8])] {
        let name = format!("table.{}x{}", from[0], from[1]);
        let table: Vec<f32> = answers.get(&name).data().iter().map(|&x| x as f32).collect();
        let moved = interpolate_positions(&table, 3, from, to)?;
        let moved: Vec<f64> = moved.into_iter().map(f64::from).collect();
        let name = format!("{name}.to.{}x{}", to[0], to[1]);
        close(&name, &moved, answers.get(&name).data(), 1e-6);
    }
    Ok(())
}

#[test]
fn configs_are_read_back() -> Result<()> {
    for case in ["vit", "vit_resized", "deit", "deit_taught", "dinov2", "dinov2_gated"] {
        let theirs = json(&folder(case).join("model/config.json"));
        let config = config_from_json(&theirs)?;
        let ours = config_to_json(&config)?;
        assert_eq!(config_from_json(&ours)?, config);
        for (name, value) in ours.as_object().expect("an object") {
            // The mask token is not kept.
            if name != "use_mask_token" {
                assert_eq!(theirs[name], *value, "{case}: {name}");
            }
        }
    }
    Ok(())
}
