//! ViT against transformers: logits, hidden states, every gradient and ten steps of training, and images of
//! another size than that of the weights, on the goldens of `goldens/parity`.

use regard::Result;
use regard::prelude::*;
use regard_conformance::parity::{Golden, Tensors, close, folder, json};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::grid::interpolate_positions;
use regard_models::import::vit::{config_from_json, config_to_json, imports};
use regard_models::{Vit, VitConfig};

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
    let Golden { config, weights, answers } = Golden::read("vit");
    let vit = Vit::new(config_from_json(&config)?)?;
    let mut g = Graph::inference();
    let image = image(&mut g, vit.config())?;
    let logits = vit.logits(&mut g, image)?;
    g.output("logits", logits)?;
    let taps = ["embedding.stream", "block.0.stream", "block.1.stream", "final_norm.stream"];
    let mut store = Store::new(0);
    let mut program = Program::new(g, &taps, &mut store, &device())?;
    weights.fill(&mut store, &imports(vit.config()));
    for set in ["one", "batch"] {
        feed(&mut program, &answers, set)?;
        program.run(&mut store)?;
        for (ours, theirs) in taps.iter().zip(["hidden.0", "hidden.1", "hidden.2", "hidden.last"]) {
            let (got, wanted) = (program.array(ours)?, answers.get(&format!("{set}.{theirs}")));
            assert_eq!(got.dims(), wanted.dims());
            close(&format!("{set}: {theirs}"), got.data(), wanted.data(), FORWARD);
        }
        let (got, wanted) = (program.array("logits")?, answers.get(&format!("{set}.logits")));
        assert_eq!(got.dims(), wanted.dims());
        close(&format!("{set}: logits"), got.data(), wanted.data(), FORWARD);
    }
    Ok(())
}

#[test]
fn classes_are_learned_as_in_pytorch() -> Result<()> {
    let golden = Golden::read("vit");
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
    let Golden { config, weights, answers } = Golden::read("vit_resized");
    let own = config_from_json(&config)?;
    for set in ["tall", "small", "same"] {
        let dims = answers.get(&format!("{set}.pixel_values")).dims();
        let vit = Vit::new(VitConfig { image: [dims[2], dims[3]], ..own })?;
        let mut g = Graph::inference();
        let image = image(&mut g, vit.config())?;
        let logits = vit.logits(&mut g, image)?;
        g.output("logits", logits)?;
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &device())?;
        for import in imports(&own) {
            let numbers = weights.ours(&import, "");
            let numbers = match &*import.ours {
                "position_embedding.weight" => {
                    interpolate_positions(&numbers, own.width, own.grid(), vit.config().grid())?
                }
                _ => numbers,
            };
            store.set_f32(&import.ours, &numbers)?;
        }
        feed(&mut program, &answers, set)?;
        program.run(&mut store)?;
        let wanted = answers.get(&format!("{set}.logits")).data();
        close(&format!("{set}: logits"), program.array("logits")?.data(), wanted, FORWARD);
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
    for case in ["vit", "vit_resized"] {
        let theirs = json(&folder(case).join("model/config.json"));
        let config = config_from_json(&theirs)?;
        let ours = config_to_json(&config)?;
        assert_eq!(config_from_json(&ours)?, config);
        for (name, value) in ours.as_object().expect("an object") {
            assert_eq!(theirs[name], *value, "{case}: {name}");
        }
    }
    Ok(())
}
