//! A margin makes a copy; without one weights are diffuse.

use crate::attend::Scene;
use crate::compute::{length, minus};
use crate::picture::{Axis, Chart};
use crate::statistics::{Estimate, histogram, mean, normal_expectation, share};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;

const KEYS: usize = 10;
/// What sums of ten products in f64 may be off by.
const ROUNDING: f64 = 1e-13;

/// The weight of the best key when it leads all others by the same margin.
fn bound(keys: usize, margin: f64) -> f64 {
    1.0 / (1.0 + (keys as f64 - 1.0) * (-margin).exp())
}

/// Random scenes of one query with its best key pushed ahead; each with its margin, its best weight, and how
/// far c is.
fn scenes(context: &Context, name: &str) -> Result<Vec<(f64, f64, f64, f64)>> {
    let mut draws = context.draws(name);
    let mut found = vec![];
    for number in 0..400 {
        let beta = 10f32.powf(-0.7 + 2.4 * number as f32 / 400.0);
        let scene = Scene { beta, ..Scene::random(&mut draws, 1, 1, KEYS, 6, 4) };
        let scores: Vec<f64> = (0..KEYS).map(|key| scene.beta() * scene.score(0, key)).collect();
        let best = (0..KEYS).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
        let second = scores
            .iter()
            .enumerate()
            .filter(|(key, _)| *key != best)
            .map(|(_, s)| *s)
            .fold(f64::MIN, f64::max);
        let attended = scene.attend()?;
        let pairs = (0..KEYS * KEYS).map(|at| length(&minus(scene.value(at / KEYS), scene.value(at % KEYS))));
        let diameter = pairs.fold(0.0, f64::max);
        let off = length(&minus(&attended.mixed, scene.value(best)));
        found.push((scores[best] - second, attended.weights[best], off, diameter));
    }
    Ok(found)
}

/// D1: the bound by the margin.
pub fn margin(context: &Context) -> Result<Finding> {
    let found = scenes(context, "D1")?;
    let broken = found.iter().filter(|(margin, weight, ..)| *weight < bound(KEYS, *margin) - 1e-15).count();
    // Equal scores elsewhere: the bound is attained.
    let mut exact = 0.0f64;
    for margin in [0.0, 1.0, 3.0, 7.0, 20.0] {
        let mut scene =
            Scene { beta: 1.0, ..Scene::random(&mut context.draws("D1.equal"), 1, 1, KEYS, 1, 1) };
        scene.q = vec![1.0];
        scene.k = (0..KEYS).map(|key| if key == 0 { margin } else { 0.0 }).collect();
        exact = exact.max((scene.attend()?.weights[0] - bound(KEYS, margin)).abs());
    }
    Ok(Finding::new(Verdict::Holds, "A key that leads by a margin has at least the weight 1/(1+(n−1)e^(−margin)); equal rivals attain it.")
        .number(Number::count("scenes of 400 below the bound", broken, 0))
        .number(Number::at_most("equal rivals: difference from the bound", exact, 1e-14))
        .number(Number::shown("margin for a weight of 0.99 among 10 keys", (9.0f64 * 99.0).ln()))
        .picture(
            Chart::new("Weight of the best key of ten", Axis::new("margin over the second, after β").covering(&[0.0]), Axis::new("weight").covering(&[0.0, 1.0]))
                .points("random scenes", found.iter().filter(|f| f.0 < 20.0).map(|f| (f.0, f.1)))
                .line("bound", (0..=100).map(|i| i as f64 / 5.0).map(|m| (m, bound(KEYS, m)))),
        )
        .how("400 random scenes with β from 0.2 to 50; the attention op’s weights against the margin of their scores."))
}

/// D2: the value is copied.
pub fn value(context: &Context) -> Result<Finding> {
    let found = scenes(context, "D2")?;
    let broken =
        found.iter().filter(|(_, weight, off, diameter)| *off > (1.0 - weight) * diameter + ROUNDING).count();
    let sharp = found.iter().filter(|f| f.1 > 1.0 - 1e-6).map(|f| f.2).fold(0.0, f64::max);
    Ok(Finding::new(Verdict::Holds, "Then c is the value of that key, up to (1−α) times the diameter of the values.")
        .number(Number::count("scenes of 400 beyond the bound", broken, 0))
        .number(Number::at_most("‖c − v‖ where α > 1 − 10⁻⁶", sharp, 1e-5).erratum("E35"))
        .picture(
            Chart::new("How far c is from the value of the best key", Axis::log("1 − α").covering(&[1e-8]), Axis::log("‖c − vⱼ‖"))
                .points("random scenes", found.iter().filter(|f| 1.0 - f.1 > 1e-9).map(|f| (1.0 - f.1, f.2)))
                .line("1 − α times the largest diameter", {
                    let widest = found.iter().map(|f| f.3).fold(0.0, f64::max);
                    [(1e-9, 1e-9 * widest), (1.0, widest)]
                }),
        )
        .how("400 random scenes with β from 0.2 to 50: the output of the attention op against the value of its best key. The notes’ text calls it a key; it is the value."))
}

/// D3: random weights are diffuse.
pub fn diffuse(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("D3");
    let (rows, keys, width) = (context.size(4_000, 20_000), 32, 64);
    let (mut entropies, mut largest) = (vec![], vec![]);
    for _ in 0..rows / 100 {
        let found = Scene::random(&mut draws, 100, 1, keys, width, 1).attend()?;
        for row in 0..100 {
            let weights = found.weights_of(row);
            entropies.push(weights.iter().filter(|a| **a > 0.0).map(|a| -a * a.ln()).sum::<f64>());
            largest.push(weights.iter().copied().fold(0.0, f64::max));
        }
    }
    let (found, most) = (mean(&entropies), (keys as f64).ln());
    let sharp: Estimate = share(largest.iter().filter(|a| **a > 0.5).count(), rows);
    // For many keys with scores of variance 1: ln n − E[s²eˢ…] → ln n − ½.
    let limit = most - 0.5 * normal_expectation(|z| z * z);
    Ok(Finding::measured(format!(
        "Random scaled scores give diffuse weights: {:.2} nats of at most {most:.2} over 32 keys.",
        found.value
    ))
    .number(Number::sampled("mean entropy, nats", found))
    .number(Number::sampled("random weights: mean entropy as a share of ln n", found.times(1.0 / most)))
    .number(Number::shown("ln n", most))
    .number(Number::shown("ln n − ½, its limit for many keys", limit))
    .number(Number::at_most("upper end: share of queries with a weight above ½", sharp.high, 0.05))
    .picture(
        Chart::new(
            "Entropy of the weights of random queries over 32 keys",
            Axis::new("entropy, nats").covering(&[most]),
            Axis::new("share of queries"),
        )
        .bars("β = 1/√d", histogram(&entropies, 1.5, 3.5, 40)),
    )
    .how(format!("{rows} random queries of width {width} over {keys} random keys.")))
}

/// D15: does the key that is most like the query win?
pub fn closest(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("D15");
    const WIDTH: usize = 6;
    let (mut tens, mut plain, mut normed, tried) = (0usize, 0usize, 0usize, 400);
    for _ in 0..tried {
        let scene = Scene { beta: 1.0, ..Scene::random(&mut draws, 1, 1, KEYS, WIDTH, 1) };
        // The query itself as a key, and ten times the query as another.
        let mut two = Scene { keys: 2, v: scene.v[..2].to_vec(), ..scene.clone() };
        two.k = [scene.q.clone(), scene.q.iter().map(|x| 10.0 * x).collect()].concat();
        let weights = two.attend()?.weights;
        tens += usize::from(weights[0] > weights[1]);
        // The key nearest to the query, against the key that wins, with keys as they are and of length 1.
        let unit = |key: &[f64]| key.iter().map(|x| x / length(key)).collect::<Vec<f64>>();
        let even = Scene { k: (0..KEYS).flat_map(|key| unit(scene.key(key))).collect(), ..scene.clone() };
        for (agrees, scene) in [(&mut plain, &scene), (&mut normed, &even)] {
            let weights = scene.attend()?.weights;
            let best = (0..KEYS).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
            let near = |key: usize| length(&minus(scene.key(key), &scene.q));
            let nearest = (0..KEYS).min_by(|&a, &b| near(a).total_cmp(&near(b)));
            *agrees += usize::from(best == nearest);
        }
    }
    let of = |count: usize| count as f64 / f64::from(tried as u32);
    // The winning set in the plane: a rival k against the query itself as key wins where kᵀq > qᵀq.
    let wins = |normalised: bool| {
        let cell = |at: usize| {
            let (x, y) = ((at % 41) as f64 / 8.0 - 2.0, (at / 41) as f64 / 8.0 - 2.5);
            let size = if normalised { (x * x + y * y).sqrt().max(1e-9) } else { 1.0 };
            f64::from(u8::from(x / size > 1.0))
        };
        (0..41 * 41).map(cell).collect::<Vec<f64>>()
    };
    Ok(Finding::new(
        Verdict::Conditional,
        "Dot products reward length: ten times the query beats the query itself, always. Among keys of equal length the nearest one wins.",
    )
    .number(Number::shown("share of scenes in which k = q beats k = 10q", of(tens)))
    .number(Number::shown("share of scenes in which the nearest key wins", of(plain)))
    .number(Number::shown("keys of length 1: share of scenes in which the nearest key wins", of(normed)))
    .counter_example("k = 10q is nine times as far from q as the origin is, and takes all of the weight from k = q.")
    .picture(crate::picture::Heat::new(
        "Keys in the plane that beat the key k = q, q = (1, 0): all beyond the line kᵀq = 1",
        "second coordinate",
        "first coordinate",
        41,
        wins(false),
        crate::picture::Colours::Rising,
    ))
    .picture(crate::picture::Heat::new(
        "The same for keys divided by their length: none",
        "second coordinate",
        "first coordinate",
        41,
        wins(true),
        crate::picture::Colours::Rising,
    ))
    .how("400 random queries over ten random keys through the attention op, keys as they are and divided by their length; and q against 10q."))
}
