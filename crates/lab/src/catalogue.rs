//! The list of all claims, group by group, and how a person names some of them.

use crate::*;
use regard_graph::{Error, Result};

/// A group of claims.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its letter.
    pub letter: char,
    /// What it is about.
    pub title: &'static str,
    /// Its claims.
    pub claims: &'static [Claim],
}

/// All groups, in order.
pub const GROUPS: &[Group] = &[
    Group { letter: 'A', title: "The attention primitive", claims: a_primitive::CLAIMS },
    Group { letter: 'B', title: "Scale, temperature, gradients", claims: b_scale::CLAIMS },
    Group { letter: 'C', title: "Perturbation and sensitivity", claims: c_perturbation::CLAIMS },
    Group { letter: 'D', title: "Copying, averages of two, noisy keys", claims: d_copying::CLAIMS },
    Group { letter: 'E', title: "Multi-head attention", claims: e_heads::CLAIMS },
    Group { letter: 'F', title: "Self-attention and positions", claims: f_positions::CLAIMS },
    Group { letter: 'G', title: "Masks and streaming", claims: g_masks::CLAIMS },
    Group { letter: 'H', title: "Complexity and parallelism", claims: h_cost::CLAIMS },
    Group { letter: 'I', title: "Normalisation and residuals", claims: i_norms::CLAIMS },
    Group { letter: 'J', title: "Blocks and the three families", claims: j_blocks::CLAIMS },
    Group { letter: 'K', title: "Vision Transformer", claims: k_vision::CLAIMS },
    Group { letter: 'L', title: "Pretraining, fine-tuning, Perceiver", claims: l_pretraining::CLAIMS },
    Group { letter: 'M', title: "Retrieved or made up?", claims: m_evidence::CLAIMS },
    Group { letter: 'N', title: "Properties that all rely on", claims: n_properties::CLAIMS },
];

/// All claims, in order.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    GROUPS.iter().flat_map(|group| group.claims)
}

/// The claim of this id, in capitals or not.
pub fn find(id: &str) -> Option<&'static Claim> {
    claims().find(|claim| claim.id.eq_ignore_ascii_case(id))
}

/// The claims that a person means: `C7`, a whole group `B`, a run `A1-A5`, all that are `trained` (or
/// `exact`, or `pending`). In order, each once.
pub fn select<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static Claim>> {
    let mut wanted = Vec::new();
    for name in names {
        wanted.extend(named(name.as_ref())?);
    }
    Ok(claims().filter(|claim| wanted.contains(&claim.id)).collect())
}

fn named(name: &str) -> Result<Vec<&'static str>> {
    if let Some(claim) = find(name) {
        return Ok(vec![claim.id]);
    }
    let group = |group: &&Group| name.len() == 1 && name.eq_ignore_ascii_case(&group.letter.to_string());
    if let Some(group) = GROUPS.iter().find(group) {
        return Ok(group.claims.iter().map(|claim| claim.id).collect());
    }
    let kind = |claim: &&Claim| claim.evidence().name().eq_ignore_ascii_case(name);
    if claims().any(|claim| kind(&claim)) {
        return Ok(claims().filter(kind).map(|claim| claim.id).collect());
    }
    for (at, dash) in name.char_indices().filter(|(_, c)| matches!(c, '-' | '–')) {
        let ends = (find(&name[..at]), find(&name[at + dash.len_utf8()..]));
        if let (Some(first), Some(last)) = ends {
            let place = |claim: &Claim| claims().position(|other| other.id == claim.id).unwrap_or(0);
            let (first, last) = (place(first), place(last));
            if first > last {
                return Err(Error::invalid(
                    "claims",
                    format!("the run `{name}` goes backwards"),
                    "name the earlier claim first",
                ));
            }
            return Ok(claims().skip(first).take(last - first + 1).map(|claim| claim.id).collect());
        }
    }
    if let Some(erratum) = ERRATA.iter().find(|erratum| erratum.id.eq_ignore_ascii_case(name)) {
        let belongs = claims().filter(|claim| claim.errata.contains(&erratum.id)).map(|claim| claim.id);
        return Err(Error::invalid(
            "claims",
            format!("`{name}` is an erratum"),
            format!("ask for the claim that it belongs to: {}", belongs.collect::<Vec<_>>().join(", ")),
        ));
    }
    Err(Error::unknown("claim", &name.to_uppercase(), claims().map(|claim| claim.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many claims each group has, and how their ids are written.
    const IDS: [(&str, usize); 14] = [
        ("A", 10),
        ("B", 13),
        ("C", 16),
        ("D", 15),
        ("E-", 13),
        ("F-", 16),
        ("G", 11),
        ("H", 9),
        ("I", 10),
        ("J", 14),
        ("K", 15),
        ("L", 9),
        ("M", 6),
        ("N", 5),
    ];

    #[test]
    fn no_claim_of_the_notes_is_absent() {
        let wanted: Vec<String> = IDS
            .iter()
            .flat_map(|(prefix, count)| (1..=*count).map(move |n| format!("{prefix}{n}")))
            // Recurrent networks without positions: for when they are a family of models.
            .filter(|id| id != "F-15")
            .collect();
        assert_eq!(claims().map(|claim| claim.id).collect::<Vec<_>>(), wanted);
        assert_eq!(wanted.len(), 161);
    }

    #[test]
    fn every_claim_says_what_it_is() {
        for group in GROUPS {
            for claim in group.claims {
                assert_eq!(claim.group(), group.letter);
                assert!(claim.title.len() > 3 && claim.statement.len() > 10, "{}", claim.id);
                let from_notes =
                    claim.note.starts_with('S') || ["derived", "implied", "all"].contains(&claim.note);
                assert!(from_notes, "{}: {}", claim.id, claim.note);
                if let Run::Pending(waits) = claim.run {
                    assert!(waits.len() > 5, "{} does not say what it waits for", claim.id);
                }
            }
        }
    }

    #[test]
    fn claims_are_named_one_by_one_by_group_and_by_run() {
        let ids = |names: &[&str]| select(names).map(|c| c.iter().map(|c| c.id).collect::<Vec<_>>());
        assert_eq!(ids(&["c7"]).unwrap(), ["C7"]);
        assert_eq!(ids(&["N"]).unwrap(), ["N1", "N2", "N3", "N4", "N5"]);
        assert_eq!(ids(&["B2", "A2-A4", "A3"]).unwrap(), ["A2", "A3", "A4", "B2"]);
        assert_eq!(ids(&["F-2-F-3"]).unwrap(), ["F-2", "F-3"]);
        assert_eq!(ids(&["a9–b1"]).unwrap(), ["A9", "A10", "B1"]);
        assert!(ids(&["trained"]).unwrap().starts_with(&["B13", "D3"]));
    }

    #[test]
    fn slips_are_met_with_the_nearest_id() {
        let refused = |name: &str| select(&[name]).unwrap_err().to_string();
        assert_eq!(refused("C77"), "no claim is called `C77`; did you mean `C7`?");
        assert_eq!(refused("A5-A2"), "claims: the run `A5-A2` goes backwards; name the earlier claim first");
        assert_eq!(refused("E1"), "claims: `E1` is an erratum; ask for the claim that it belongs to: C6");
    }
}
