//! Whole models against PyTorch and transformers: reads a committed golden (`parity/README.md` says what is in it),
//! loads its weights by a table of names, and compares logits, every gradient and ten steps of AdamW.

use regard::ops::AdamW;
use regard::prelude::*;
use regard::{Result, graph};
use regard_models::import::Import;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Logits may be this far from theirs, relative to the largest.
pub const LOGITS: f64 = 1e-4;
/// A gradient may be this far from theirs, relative to the largest gradient of its layer.
pub const GRADIENTS: f64 = 1e-4;
/// Losses of ten steps, and the logits after them, may be this far from theirs, relative to the largest.
pub const STEPS: f64 = 1e-3;

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: Vec<f64>,
}

impl Tensor {
    /// As f32.
    pub fn f32(&self) -> Vec<f32> {
        self.numbers.iter().map(|&x| x as f32).collect()
    }

    /// As i32: ids, labels, positions.
    pub fn i32(&self) -> Vec<i32> {
        self.numbers.iter().map(|&x| x as i32).collect()
    }

    /// True where it is not 0: masks.
    pub fn bools(&self) -> Vec<bool> {
        self.numbers.iter().map(|&x| x != 0.0).collect()
    }
}

/// What PyTorch said of one case.
pub struct Golden {
    /// The folder.
    pub folder: PathBuf,
    /// `model/config.json`.
    pub config: Value,
    /// `model/model.safetensors`.
    pub weights: BTreeMap<String, Tensor>,
    /// `golden.safetensors`.
    pub answers: BTreeMap<String, Tensor>,
}

impl Golden {
    /// The golden of a case.
    pub fn read(case: &str) -> Golden {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/parity").join(case);
        let config = json(&folder.join("model/config.json"));
        let weights = tensors(&folder.join("model/model.safetensors"));
        let answers = tensors(&folder.join("golden.safetensors"));
        Golden { folder, config, weights, answers }
    }

    /// An older spelling of the config, where there is one.
    pub fn older_config(&self) -> Value {
        json(&self.folder.join("config_older.json"))
    }

    /// One of its answers, by name.
    pub fn answer(&self, name: &str) -> &Tensor {
        self.answers.get(name).unwrap_or_else(|| panic!("{} has no {name}", self.folder.display()))
    }

    /// Puts the weights into a store in which a program has declared them. Every tensor of the file must be used.
    pub fn load(&self, imports: &[Import], store: &mut Store) {
        for import in imports {
            store.set_f32(&import.ours, &ours(&self.weights, "", import)).unwrap();
        }
        for name in self.weights.keys() {
            assert!(imports.iter().any(|import| &import.theirs == name), "nobody imports {name}");
        }
    }

    /// Loss and gradients of one step, then the losses of ten steps and the logits after them. `loss` and `logits`
    /// record, with inputs that `feed` sets; the loss is scaled by the input `scale`.
    pub fn check_training(
        &self,
        imports: &[Import],
        loss: impl Fn(&mut Graph) -> graph::Result<Var>,
        logits: impl Fn(&mut Graph) -> graph::Result<Var>,
        feed: impl Fn(&mut Program) -> Result<()>,
    ) -> Result<()> {
        let cpu = Cpu::with(2, regard::device::Level::best())?;
        let mut store = Store::new(0);

        let mut g = Graph::new();
        let value = loss(&mut g)?;
        g.output("loss", value)?;
        let parameters = g.parameters();
        let gradients = g.gradient(value, &parameters)?;
        let mut names = Vec::new();
        for (&parameter, gradient) in parameters.iter().zip(gradients) {
            let stored = g.value(parameter).version_of.expect("a parameter is stored");
            names.push(g.stored()[stored].name.clone());
            g.output(&format!("gradient.{}", names[names.len() - 1]), gradient)?;
        }
        let mut program = Program::new(g, &[], &mut store, &cpu)?;
        self.load(imports, &mut store);
        feed(&mut program)?;
        program.run(&mut store)?;
        let theirs = self.answer("train.loss").numbers[0];
        assert_close("loss", &[program.scalar("loss")?], &[theirs], LOGITS);
        assert_eq!(names.len(), imports.len(), "as many parameters as imports");
        let wanted: BTreeMap<&str, Vec<f32>> =
            imports.iter().map(|import| (&*import.ours, ours(&self.answers, "gradient.", import))).collect();
        for name in &names {
            let layer = layer_of(name);
            let peers = wanted.iter().filter(|(other, _)| layer_of(other) == layer);
            let scale = peers.flat_map(|(_, numbers)| numbers).fold(0f64, |most, x| most.max(x.abs() as f64));
            let got = program.f32(&format!("gradient.{name}"))?;
            let error = distance(got, wanted[&**name].iter().map(|&x| x as f64));
            assert!(
                error <= GRADIENTS * scale,
                "gradient of {name}: off by {error:.2e}, the layer's is {scale:.2e}"
            );
        }

        let mut g = Graph::new();
        let value = loss(&mut g)?;
        g.output("loss", value)?;
        let rate = g.input("rate", DType::F32, shape![])?;
        let step = g.input("step", DType::I32, shape![])?;
        let parameters = g.parameters();
        let gradients = g.gradient(value, &parameters)?;
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
        g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
        let mut program = Program::new(g, &[], &mut store, &cpu)?;
        feed(&mut program)?;
        program.set_f32("rate", &[], &[1e-3])?;
        let mut losses = Vec::new();
        for step in 1..=10 {
            program.set_i32("step", &[], &[step])?;
            program.run(&mut store)?;
            losses.push(program.scalar("loss")?);
        }
        assert_close("ten losses", &losses, &self.answer("train.losses").numbers, STEPS);

        let mut g = Graph::inference();
        let value = logits(&mut g)?;
        g.output("logits", value)?;
        let mut program = Program::new(g, &[], &mut store, &cpu)?;
        feed(&mut program)?;
        program.run(&mut store)?;
        assert_close(
            "logits after ten steps",
            program.f32("logits")?,
            &self.answer("train.final_logits").numbers,
            STEPS,
        );
        Ok(())
    }
}

/// The largest difference must be within `bound` of the largest number wanted.
pub fn assert_close(what: &str, got: &[f32], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len(), "{what}: as many numbers");
    let scale = want.iter().fold(0f64, |most, x| most.max(x.abs()));
    let error = distance(got, want.iter().copied());
    assert!(error <= bound * scale, "{what}: off by {error:.2e} where the largest is {scale:.2e}");
}

/// The largest difference; NaN is infinitely far from everything.
fn distance(got: &[f32], want: impl Iterator<Item = f64>) -> f64 {
    let apart = got.iter().zip(want).map(|(&got, want)| (got as f64 - want).abs());
    apart.fold(0.0, |most, x| if x.is_nan() { f64::INFINITY } else { most.max(x) })
}

/// The layer of a parameter: an attention or a feed-forward part as a whole, or the parameter's own.
fn layer_of(name: &str) -> &str {
    for part in [".attention.", ".cross.", ".feed_forward."] {
        if let Some(at) = name.find(part) {
            return &name[..at + part.len()];
        }
    }
    name.rsplit_once('.').map_or(name, |(layer, _)| layer)
}

/// One of our parameters from the tensors of a file.
fn ours(file: &BTreeMap<String, Tensor>, prefix: &str, import: &Import) -> Vec<f32> {
    let name = format!("{prefix}{}", import.theirs);
    let tensor = file.get(&name).unwrap_or_else(|| panic!("the file has no {name}"));
    import.map.apply(&tensor.shape, &tensor.f32()).unwrap()
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All tensors of a file, by name.
pub fn tensors(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let numbers: Vec<f64> = match view.dtype() {
            Dtype::F32 => {
                view.data().as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x) as f64).collect()
            }
            Dtype::F64 => view.data().as_chunks::<8>().0.iter().map(|&x| f64::from_le_bytes(x)).collect(),
            Dtype::I64 => {
                view.data().as_chunks::<8>().0.iter().map(|&x| i64::from_le_bytes(x) as f64).collect()
            }
            other => panic!("{}: {name} is {other:?}", path.display()),
        };
        (name, Tensor { shape: view.shape().to_vec(), numbers })
    };
    file.tensors().into_iter().map(read).collect()
}
