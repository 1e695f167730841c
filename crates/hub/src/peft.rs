//! Low-rank adapters as PEFT keeps them: `adapter_config.json` and `adapter_model.safetensors` in a folder of
//! their own, which names the model that they belong to. Read, they are added to its weights while these are
//! loaded; written, PEFT loads them onto the same model. A fused projection of theirs is several weights of
//! ours: they share A and each has its rows of B; backwards, the ranks of ours stand side by side.

use crate::open::Opened;
use crate::{Error, Result};
use regard_data::folder::read_json;
use regard_data::{Checkpoint, Data, Save, save_file};
use regard_engine::Store;
use regard_layers::adapter_names;
use regard_models::import::{Import, Map};
use regard_models::{Adaptation, Model};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The file that says how adapters were made.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The file with their numbers.
pub const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
/// What stands before the names of the model's own modules.
const PREFIX: &str = "base_model.model.";

/// What is added to one of our weights: s B A.
#[derive(Debug)]
pub(crate) struct LowRank {
    pub weight: String,
    rank: usize,
    scale: f64,
    down: Vec<f32>,
    up: Vec<f32>,
}

impl LowRank {
    /// W + s B A, W being `[N K]`; sums in f64, rounded once.
    pub fn add_to(&self, weight: &mut [f32]) {
        let columns = self.down.len() / self.rank.max(1);
        for (row, up) in weight.chunks_mut(columns.max(1)).zip(self.up.chunks(self.rank.max(1))) {
            for (column, x) in row.iter_mut().enumerate() {
                let parts = up.iter().enumerate();
                let sum: f64 =
                    parts.map(|(at, &b)| f64::from(b) * f64::from(self.down[at * columns + column])).sum();
                *x = (f64::from(*x) + self.scale * sum) as f32;
            }
        }
    }
}

/// What `adapter_config.json` says, checked: what would change numbers and is not known is refused.
#[derive(Debug)]
pub(crate) struct Settings {
    path: String,
    pub base: Option<String>,
    alpha: f64,
    by_root: bool,
    alphas: BTreeMap<String, f64>,
}

/// Keys that change no number of what was saved: how it was trained, where it belongs, what the tensors
/// themselves show.
const HARMLESS: [&str; 16] = [
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "task_type",
    "inference_mode",
    "r",
    "target_modules",
    "lora_alpha",
    "lora_dropout",
    "fan_in_fan_out",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "exclude_modules",
    "peft_version",
    "runtime_config",
];

impl Settings {
    /// Reads the file of a folder.
    pub fn read(folder: &Path) -> Result<Settings> {
        let file = folder.join(ADAPTER_CONFIG);
        let page = read_json(&file)?;
        let path = file.display().to_string();
        let refused = |what: String| Error::Refused {
            path: path.clone(),
            what,
            advice: "merge the adapter into its model with PEFT (`merge_and_unload`), and save that".into(),
        };
        let kind = page["peft_type"].as_str().unwrap_or_default();
        if kind != "LORA" {
            return Err(refused(format!("the adapter is of the kind `{kind}`, and only LORA is known")));
        }
        let number = |name: &str| {
            page[name]
                .as_f64()
                .ok_or_else(|| refused(format!("`{name}` is {}, expected a number", page[name])))
        };
        let alpha = number("lora_alpha")?;
        let mut alphas = BTreeMap::new();
        for (module, value) in page["alpha_pattern"].as_object().into_iter().flatten() {
            let plain = module.chars().all(|c| c.is_alphanumeric() || "._".contains(c));
            match value.as_f64().filter(|_| plain) {
                Some(alpha) => alphas.insert(module.clone(), alpha),
                None => {
                    return Err(refused(format!("`alpha_pattern` has `{module}`, which is no plain name")));
                }
            };
        }
        for (name, value) in page.as_object().into_iter().flatten() {
            let known = HARMLESS.contains(&name.as_str())
                || ["peft_type", "use_rslora", "alpha_pattern"].contains(&name.as_str());
            let empty = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(items) => items.is_empty(),
                _ => false,
            };
            let usual = match name.as_str() {
                "bias" => value == "none",
                "init_lora_weights" => value.is_boolean() || value == "gaussian",
                // Settings of how modules are named in parallel training, which nobody asked for.
                "megatron_core" => page["megatron_config"].is_null(),
                "qalora_group_size" => page["use_qalora"] != json!(true),
                _ => false,
            };
            if !(known || empty || usual) {
                return Err(refused(format!("`{name}` is {value}, which is not known")));
            }
        }
        Ok(Settings {
            base: page["base_model_name_or_path"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
            by_root: page["use_rslora"] == json!(true),
            alpha,
            alphas,
            path,
        })
    }

    /// What the adapter of a module is multiplied by.
    fn scale(&self, module: &str, rank: usize) -> f64 {
        let own = self.alphas.iter().find(|(name, _)| is_named(module, name)).map(|(_, alpha)| *alpha);
        let rank = rank.max(1) as f64;
        own.unwrap_or(self.alpha) / if self.by_root { rank.sqrt() } else { rank }
    }
}

/// Whether a module is the one of a name, with or without what a class puts before it.
fn is_named(module: &str, name: &str) -> bool {
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    ends(module, name) || ends(name, module)
}

/// The adapters of a folder, for our weights; `files` holds them under the names of PEFT.
pub(crate) fn read(
    settings: &Settings,
    files: &Checkpoint,
    model: &dyn Model,
    table: &[Import],
) -> Result<Vec<LowRank>> {
    let refused = |what: String| Error::Refused {
        path: settings.path.clone(),
        what,
        advice: "give the model that the adapter was made for as `base_model_name_or_path`".into(),
    };
    let mut modules: BTreeMap<String, [Option<&str>; 2]> = BTreeMap::new();
    for name in files.names() {
        let own = name.strip_prefix(PREFIX).unwrap_or(name);
        let part = |end: &str| own.strip_suffix(end).map(str::to_owned);
        match (part(".lora_A.weight"), part(".lora_B.weight")) {
            (Some(module), _) => modules.entry(module).or_default()[0] = Some(name),
            (_, Some(module)) => modules.entry(module).or_default()[1] = Some(name),
            _ => return Err(refused(format!("`{name}` is no part of an adapter of a linear layer"))),
        }
    }
    let mut all = Vec::new();
    for (module, parts) in modules {
        let [Some(a), Some(b)] = parts else {
            return Err(refused(format!("the adapter of `{module}` has one part only")));
        };
        let (a, b) = (files.get(a)?, files.get(b)?);
        let lines: Vec<&Import> = table
            .iter()
            .filter(|line| line.theirs.strip_suffix(".weight").is_some_and(|own| is_named(&module, own)))
            .collect();
        let (&[rank, inputs], &[outputs, same]) = (a.shape, b.shape) else {
            return Err(refused(format!("the adapter of `{module}` is {:?} and {:?}", a.shape, b.shape)));
        };
        if lines.is_empty() || rank == 0 || rank != same {
            return Err(refused(format!(
                "the model has no linear layer `{module}` for an adapter of {:?} and {:?}",
                a.shape, b.shape
            )));
        }
        let (down, up) = (a.f32s(), b.f32s());
        for line in lines {
            if line.map == Map::Reshaped {
                return Err(refused(format!("`{module}` is no linear layer")));
            }
            let own = model.parameters().declared().find(|own| own.name == line.ours);
            let rows = own.map_or(0, |own| own.shape.bound().first().copied().unwrap_or(0));
            let fits = own.is_some_and(|own| own.shape.bound()[..] == [rows, inputs]);
            if !fits || rows_of_theirs(line.map, rows) != outputs {
                return Err(refused(format!(
                    "the adapter of `{module}` is {:?} and {:?}, which does not fit `{}`",
                    a.shape, b.shape, line.ours
                )));
            }
            let up = (0..rows).flat_map(|row| &up[row_of_theirs(line.map, rows, row) * rank..][..rank]);
            all.push(LowRank {
                weight: line.ours.clone(),
                rank,
                scale: settings.scale(&module, rank),
                down: down.clone(),
                up: up.copied().collect(),
            });
        }
    }
    Ok(all)
}

/// The adapters of a model that is being trained, out of tensors under our own names.
pub(crate) fn read_ours(settings: &Settings, files: &Checkpoint, model: &dyn Model) -> Result<Vec<LowRank>> {
    let mut all = Vec::new();
    for weight in model.parameters().linear_weights() {
        let [down, up] = adapter_names(weight);
        let (Some(down), Some(up)) = (files.find(&down), files.find(&up)) else { continue };
        let rank = down.shape.first().copied().unwrap_or(1);
        let (down, up) = (down.f32s(), up.f32s());
        all.push(LowRank { weight: weight.into(), rank, scale: settings.scale("", rank), down, up });
    }
    Ok(all)
}

/// `adapter_config.json` of a model with adapters.
fn config(model: &dyn Model, adaptation: &Adaptation, base: &str, tensors: &[Joined]) -> Value {
    // Not SEQ_CLS: PEFT would then look for a head of the adapter's own.
    let task = match model.task().map(|task| task.name) {
        Some("language") => json!("CAUSAL_LM"),
        Some("translate") => json!("SEQ_2_SEQ_LM"),
        _ => Value::Null,
    };
    let modules: Vec<&str> = tensors.iter().map(|one| one.module.as_str()).collect();
    let wider = || tensors.iter().filter(|one| one.rank != adaptation.rank);
    let ranks: BTreeMap<&str, usize> = wider().map(|one| (one.module.as_str(), one.rank)).collect();
    let alpha = |one: &Joined| {
        let rank = one.rank as f32;
        adaptation.scale() * if adaptation.by_root { rank.sqrt() } else { rank }
    };
    let alphas: BTreeMap<&str, f32> = wider().map(|one| (one.module.as_str(), alpha(one))).collect();
    json!({
        "peft_type": "LORA", "base_model_name_or_path": base, "task_type": task, "inference_mode": true,
        "r": adaptation.rank, "lora_alpha": adaptation.alpha, "lora_dropout": adaptation.dropout,
        "use_rslora": adaptation.by_root, "target_modules": modules, "rank_pattern": ranks,
        "alpha_pattern": alphas, "fan_in_fan_out": tensors.iter().any(|one| one.transposed), "bias": "none",
    })
}

/// The adapter of one module of theirs.
struct Joined {
    module: String,
    rank: usize,
    transposed: bool,
    down: (Vec<usize>, Vec<f32>),
    up: (Vec<usize>, Vec<f32>),
}

/// Writes the adapters of a model in the files of PEFT. Without a store, only how they are made.
pub fn save_adapters(model: &dyn Model, store: Option<&Store>, base: &str, folder: &Path) -> Result<()> {
    let Some(adaptation) = model.adaptation() else {
        return Err(Error::invalid("the model has no adapters", "save it as a whole"));
    };
    let joined = joined(model, adaptation, store)?;
    std::fs::create_dir_all(folder).map_err(|error| regard_data::Error::io("make", folder, error))?;
    if store.is_some() {
        let names: Vec<[String; 2]> = joined
            .iter()
            .map(|one| ["A", "B"].map(|part| format!("{PREFIX}{}.lora_{part}.weight", one.module)))
            .collect();
        let mut saves = Vec::new();
        for (one, [a, b]) in joined.iter().zip(&names) {
            saves.push(Save { name: a, shape: &one.down.0, data: Data::F32(&one.down.1) });
            saves.push(Save { name: b, shape: &one.up.0, data: Data::F32(&one.up.1) });
        }
        save_file(folder.join(ADAPTER_WEIGHTS), &saves, &regard_data::SaveOptions::default())?;
    }
    let text = format!("{:#}\n", config(model, adaptation, base, &joined));
    Ok(regard_data::whole::write(folder.join(ADAPTER_CONFIG), |file| file.write_all(text.as_bytes()))?)
}

/// Adds the adapters of a model to its weights in a store.
pub fn merge_adapters(model: &dyn Model, store: &mut Store) -> Result<()> {
    let Some(adaptation) = model.adaptation() else {
        return Err(Error::invalid("the model has no adapters", "save it as a whole"));
    };
    for weight in &adaptation.weights {
        let [down, up] = adapter_names(weight);
        let own = LowRank {
            weight: weight.clone(),
            rank: adaptation.rank,
            scale: adaptation.scale().into(),
            down: store.f32(&down)?.to_vec(),
            up: store.f32(&up)?.to_vec(),
        };
        let mut numbers = store.f32(weight)?.to_vec();
        own.add_to(&mut numbers);
        store.set_f32(weight, &numbers)?;
    }
    Ok(())
}

/// How many rows a tensor of theirs has of which so many are ours.
fn rows_of_theirs(map: Map, rows: usize) -> usize {
    match map {
        Map::Split { parts, .. } | Map::SplitTransposed { parts, .. } => rows * parts.max(1),
        Map::Rows { period, count, .. } => rows / count.max(1) * period,
        Map::Same | Map::Transposed | Map::Reshaped => rows,
    }
}

/// Where a row of ours stands there.
fn row_of_theirs(map: Map, rows: usize, row: usize) -> usize {
    match map {
        Map::Split { index, .. } | Map::SplitTransposed { index, .. } => index * rows + row,
        Map::Rows { period, from, count } => row / count.max(1) * period + from + row % count.max(1),
        Map::Same | Map::Transposed | Map::Reshaped => row,
    }
}

/// The adapters by modules of theirs. Parts of a fused one stand side by side: A above A, B in its own rows
/// and columns.
fn joined(model: &dyn Model, adaptation: &Adaptation, store: Option<&Store>) -> Result<Vec<Joined>> {
    let mut modules: BTreeMap<String, Vec<Import>> = BTreeMap::new();
    for line in model.files(None).imports.into_iter().filter(|line| adaptation.weights.contains(&line.ours)) {
        let Some(module) = line.theirs.strip_suffix(".weight") else {
            return Err(Error::invalid(
                format!("`{}` is `{}` in files, which PEFT does not adapt", line.ours, line.theirs),
                "leave it out of the targets, or export the model merged",
            ));
        };
        modules.entry(module.to_owned()).or_default().push(line);
    }
    let rank = adaptation.rank;
    let mut all = Vec::with_capacity(modules.len());
    for (module, lines) in modules {
        let total = rank * lines.len();
        let shape = |line: &Import| -> Result<[usize; 2]> {
            let own = model.parameters().declared().find(|own| own.name == line.ours);
            own.map(|own| [own.shape.bound()[0], own.shape.bound()[1]]).ok_or_else(|| {
                Error::invalid(format!("the model has no `{}`", line.ours), "adapt weights that it has")
            })
        };
        let [rows, inputs] = shape(&lines[0])?;
        let outputs = rows_of_theirs(lines[0].map, rows);
        let (mut down, mut up) = (Vec::with_capacity(total * inputs), vec![0.0; outputs * total]);
        for (place, line) in lines.iter().enumerate() {
            let [rows, _] = shape(line)?;
            let [a, b] = adapter_names(&line.ours);
            let Some(store) = store else { continue };
            down.extend_from_slice(&store.f32(&a)?);
            for (row, numbers) in store.f32(&b)?.chunks(rank.max(1)).enumerate() {
                let begin = row_of_theirs(line.map, rows, row) * total + place * rank;
                up[begin..begin + rank].copy_from_slice(numbers);
            }
        }
        let transposed = matches!(lines[0].map, Map::Transposed | Map::SplitTransposed { .. });
        let (down, up) = ((vec![total, inputs], down), (vec![outputs, total], up));
        all.push(Joined { module, rank: total, transposed, down, up });
    }
    Ok(all)
}

impl Opened {
    /// Opens the model that an adapter belongs to, and hangs it on. `checkpoint` holds adapters of a run in
    /// progress; without it they are those of the folder.
    pub(crate) fn with_adapter(
        folder: &Path,
        checkpoint: Option<&Checkpoint>,
        open: impl Fn(&str) -> Result<Opened>,
    ) -> Result<Opened> {
        let settings = Settings::read(folder)?;
        let Some(base) = &settings.base else {
            return Err(Error::Refused {
                path: settings.path,
                what: "`base_model_name_or_path` does not say which model the adapter belongs to".into(),
                advice: "write the folder of that model there".into(),
            });
        };
        // As it stands, or from where the adapter lies.
        let beside = folder.join(base);
        let opened = match Path::new(base).exists() || !beside.exists() {
            true => open(base)?,
            false => open(&beside.display().to_string())?,
        };
        let adapters = match checkpoint {
            Some(own) => read_ours(&settings, own, &*opened.model)?,
            None => {
                let files = Checkpoint::open(folder.join(ADAPTER_WEIGHTS))?;
                read(&settings, &files, &*opened.model, &opened.model.files(None).imports)?
            }
        };
        Ok(opened.adapted(adapters, folder))
    }
}
