//! Names of tensors that a reader passed over, for one line: all of them where they are few, and by how they
//! begin where they are many, as the states of an optimizer are.

use std::collections::BTreeMap;

/// So many are named one by one.
const FEW: usize = 6;

/// The names, in a line.
pub fn left_out(names: &[String]) -> String {
    if names.len() <= FEW {
        return names.join(", ");
    }
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        let mut parts = name.splitn(3, '.');
        let group = match (parts.next(), parts.next(), parts.next()) {
            (Some(first), Some(second), Some(_)) => format!("{first}.{second}.*"),
            _ => name.clone(),
        };
        groups.entry(group).or_default().push(name);
    }
    let shown = |(group, own): (String, Vec<&str>)| match own[..] {
        [one] => one.to_string(),
        _ => format!("{group} ({})", own.len()),
    };
    groups.into_iter().map(shown).collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn few_are_named_and_many_are_counted() {
        let names = |all: &[&str]| all.iter().map(|name| name.to_string()).collect::<Vec<String>>();
        assert_eq!(left_out(&names(&["h.0.attn.bias", "pooler"])), "h.0.attn.bias, pooler");
        let many = ["adamw.m.a.b", "adamw.m.c", "adamw.v.a.b", "adamw.v.c", "head.x.y", "trainer", "z.y"];
        assert_eq!(left_out(&names(&many)), "adamw.m.* (2), adamw.v.* (2), head.x.y, trainer, z.y");
    }
}
