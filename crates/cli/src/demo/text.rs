//! A small text to learn from, made of nothing but a seed: invented people, places and what they do there.

use regard::device::Stream;

const NAMES: [&str; 12] = [
    "Mira", "Tovan", "Elsin", "Jorek", "Anwel", "Sable", "Orrin", "Kestra", "Dallo", "Venna", "Pirro",
    "Ysolde",
];
const PLACES: [&str; 10] = [
    "Tarvale",
    "Northmere",
    "Lorwick",
    "Esk",
    "Hollin Bay",
    "Sarrow",
    "Quillon",
    "Dun Averry",
    "Pelham",
    "Istra",
];
const TRADES: [&str; 8] =
    ["baker", "ferryman", "clockmaker", "weaver", "cartographer", "beekeeper", "glazier", "lamplighter"];
const TEMPLATES: [&str; 6] = [
    "{name} was born in {place}. ",
    "{name} is a {trade} in {place}. ",
    "Every {trade} of {place} knows {name}. ",
    "{name} left {place} to become a {trade}. ",
    "In {place}, {name} the {trade} is never late. ",
    "Ask {name}: the best {trade} lives in {place}. ",
];

/// A number of sentences.
pub fn sentences(seed: u64, count: usize) -> String {
    let stream = Stream::new(seed, 0, "demo.text");
    let mut text = String::new();
    for sentence in 0..count {
        let pick = |slot: u32, among: &[&'static str]| {
            among[stream.bits(sentence as u32, 0, slot) as usize % among.len()]
        };
        let filled = pick(0, &TEMPLATES)
            .replace("{name}", pick(1, &NAMES))
            .replace("{place}", pick(2, &PLACES))
            .replace("{trade}", pick(3, &TRADES));
        text.push_str(&filled);
    }
    text
}

/// The characters of a text as ids, and which character each id stands for.
pub struct Characters {
    /// The alphabet, sorted.
    pub alphabet: Vec<char>,
    /// The text.
    pub ids: Vec<i32>,
}

impl Characters {
    /// Reads a text.
    pub fn of(text: &str) -> Self {
        let mut alphabet: Vec<char> = text.chars().collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        let ids = text.chars().filter_map(|c| alphabet.binary_search(&c).ok()).map(|id| id as i32).collect();
        Characters { alphabet, ids }
    }

    /// What ids stand for.
    pub fn text(&self, ids: &[i32]) -> String {
        ids.iter().filter_map(|&id| self.alphabet.get(id as usize)).collect()
    }
}

/// The loss, in nats for each character, of guessing `held_out` from how often each character stands in
/// `seen` and nothing else. A model that beats it has learned something about order.
pub fn unigram_entropy(seen: &[i32], held_out: &[i32], alphabet: usize) -> f64 {
    // One imagined occurrence of each, so that an unseen character costs much instead of everything.
    let mut counts = vec![1.0; alphabet];
    seen.iter().for_each(|&id| counts[id as usize] += 1.0);
    let total: f64 = counts.iter().sum();
    let nats: f64 = held_out.iter().map(|&id| -(counts[id as usize] / total).ln()).sum();
    nats / held_out.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_for_the_same_seed() {
        assert_eq!(sentences(1, 50), sentences(1, 50));
        assert_ne!(sentences(1, 50), sentences(2, 50));
        assert!(sentences(1, 50).starts_with(&sentences(1, 10)), "more sentences go on where fewer ended");
    }

    #[test]
    fn ids_read_back() {
        let characters = Characters::of("to be or not");
        assert_eq!(characters.text(&characters.ids), "to be or not");
        assert_eq!(characters.alphabet, [' ', 'b', 'e', 'n', 'o', 'r', 't']);
    }

    #[test]
    fn entropy_of_a_fair_coin() {
        let fair: Vec<i32> = (0..1000).map(|i| i % 2).collect();
        assert!((unigram_entropy(&fair, &fair, 2) - std::f64::consts::LN_2).abs() < 1e-6);
    }
}
