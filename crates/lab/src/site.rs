//! The findings as a site: an index by topic, a page for each claim, a page of errata. Plain HTML with its
//! style inside: it opens from a disk, asks nothing of any other place, and fits a telephone.

mod page;

use crate::picture::{escaped, marked};
use crate::{Context, ERRATA, GROUPS, Outcome, Run};
use std::fmt::Write;

/// What these pages have beyond the style of all pages: badges, verdicts, lists of claims.
const STYLE: &str = include_str!("site/style.css");

/// The site: names of files and what is in them.
pub fn pages(outcomes: &[Outcome], context: &Context) -> Vec<(String, String)> {
    let mut pages = vec![
        ("index.html".to_string(), index(outcomes, context)),
        ("errata.html".to_string(), errata(outcomes)),
    ];
    for (at, outcome) in outcomes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &outcomes[at]);
        let text = page::page(outcome, before, outcomes.get(at + 1), context);
        pages.push((file_of(outcome.claim.id), text));
    }
    pages
}

/// What was found, in words that its numbers bear out.
pub fn sentence(outcome: &Outcome, finding: &crate::Finding) -> String {
    page::sentence(outcome, finding)
}

/// The file of a claim.
fn file_of(id: &str) -> String {
    format!("{id}.html")
}

/// A whole page.
fn whole(title: &str, body: &str) -> String {
    regard_picture::page(title, STYLE, body)
}

/// The class under which the style knows a state.
fn class_of(outcome: &Outcome) -> &'static str {
    class_of_state(outcome.state())
}

fn class_of_state(state: &str) -> &'static str {
    match state {
        "holds" => "true",
        "holds under a condition" => "conditional",
        "wrong in the notes" => "wrong",
        "undecided" => "undecided",
        "pending" => "pending",
        _ => "failed",
    }
}

fn badge(outcome: &Outcome) -> String {
    format!("<span class=\"badge {}\">{}</span>", class_of(outcome), outcome.state())
}

fn index(outcomes: &[Outcome], context: &Context) -> String {
    let mut body = String::from(
        "<header><h1>Claims about attention, put to the test</h1><p>Five sets of course notes (S0 to S4) say much about \
         attention and Transformers. Here is every claim of theirs, in our words, with what Regard finds: exact identities, \
         constructions, Monte-Carlo estimates with 99.99 % intervals, and training runs with 95 % intervals over eight seeds. What must \
         be so for a claim to hold stands in its source; the verdict is computed from the numbers, and where an interval \
         reaches across the bound it is “undecided”.</p>",
    );
    let count = |class: &str| outcomes.iter().filter(|outcome| class_of(outcome) == class).count();
    body.push_str("<ul class=\"counts\">");
    for (class, name) in [
        ("true", "hold"),
        ("conditional", "hold under a condition"),
        ("wrong", "are wrong in the notes"),
        ("undecided", "are undecided"),
        ("failed", "failed"),
        ("pending", "are pending"),
    ] {
        if count(class) > 0 {
            let _ = write!(body, "<li><span class=\"badge {class}\">{}</span> {name}</li>", count(class));
        }
    }
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    let _ = write!(
        body,
        "</ul><p class=\"quiet\">{} claims, seed {}, effort <code>--{}</code>, {seconds:.0} seconds of work. \
         <a href=\"errata.html\">Errata of the notes</a></p></header><nav class=\"topics\">",
        outcomes.len(),
        context.seed,
        context.effort.name()
    );
    let shown = |letter: char| outcomes.iter().filter(move |outcome| outcome.claim.group() == letter);
    for group in GROUPS.iter().filter(|group| shown(group.letter).next().is_some()) {
        let _ = write!(body, "<a href=\"#{0}\"><b>{0}</b> {1}</a>", group.letter, escaped(group.title));
    }
    body.push_str("</nav><main>");
    for group in GROUPS.iter().filter(|group| shown(group.letter).next().is_some()) {
        let _ = write!(
            body,
            "<section id=\"{0}\"><h2><span class=\"letter\">{0}</span> {1}</h2><ul class=\"claims\">",
            group.letter,
            escaped(group.title)
        );
        for outcome in shown(group.letter) {
            let claim = outcome.claim;
            let line = match (&outcome.found, claim.run) {
                (Some(Ok(finding)), _) => page::sentence(outcome, finding),
                (Some(Err(error)), _) => error.to_string(),
                (None, Run::Pending(waits)) => format!("waits for {waits}"),
                (None, _) => String::new(),
            };
            let _ = write!(
                body,
                "<li><a href=\"{}\"><span class=\"id\">{}</span><span class=\"what\"><b>{}</b>{}</span></a></li>",
                file_of(claim.id),
                claim.id,
                marked(claim.title),
                format_args!("{}<small>{}</small>", badge(outcome), marked(&line))
            );
        }
        body.push_str("</ul></section>");
    }
    body.push_str("</main>");
    whole("Claims about attention", &body)
}

fn errata(outcomes: &[Outcome]) -> String {
    let mut body = String::from(
        "<nav class=\"way\"><a href=\"index.html\">All claims</a></nav><header><h1>Errata of the notes</h1><p>Where a set of \
         notes is wrong or incomplete: what it says, what is true, and the number that shows it.</p></header><main>",
    );
    for erratum in ERRATA {
        let _ = write!(body, "<section class=\"erratum\" id=\"{}\">", erratum.id);
        body.push_str(&page::erratum_text(erratum));
        let owners = outcomes.iter().filter(|outcome| outcome.claim.errata.contains(&erratum.id));
        body.push_str("<div class=\"quiet\">");
        let mut any = false;
        for outcome in owners {
            any = true;
            let id = outcome.claim.id;
            let _ = write!(body, "<div><a href=\"{}\">{id}</a> {} ", file_of(id), badge(outcome));
            if let Some(Ok(finding)) = &outcome.found {
                for number in finding.numbers.iter().filter(|number| number.erratum == Some(erratum.id)) {
                    let _ = write!(body, "<br>{} ", marked(&crate::json::in_words(number)));
                }
            }
            body.push_str("</div>");
        }
        if !any {
            body.push_str("Its claims were not part of this run.");
        }
        body.push_str("</div></section>");
    }
    body.push_str("</main>");
    whole("Errata of the notes", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use std::collections::BTreeSet;

    #[test]
    fn every_claim_has_a_page_and_every_link_leads_to_one() {
        let mut outcomes: Vec<Outcome> = claims().map(|claim| Outcome::new(claim, None, 0.0)).collect();
        let context = Context::default();
        for outcome in outcomes.iter_mut().filter(|outcome| ["A1", "G2"].contains(&outcome.claim.id)) {
            let found = outcome.claim.experiment().map(|experiment| experiment(&context));
            *outcome = Outcome::new(outcome.claim, found, 0.0);
        }
        let pages = pages(&outcomes, &context);
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), claims().count() + 2);
        for (name, text) in &pages {
            for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let file = link.split('#').next().unwrap_or(link);
                assert!(file.is_empty() || names.contains(file), "{name} leads to {link}");
            }
            assert_eq!(regard_picture::check::fault(text), None, "{name}");
            assert!(!text.contains("http") && !text.contains("src="), "{name} asks for something elsewhere");
        }
        let page = &pages.iter().find(|(name, _)| name == "G2.html").expect("a page").1;
        for part in [
            "<svg",
            "wrong in the notes",
            "Counter-example",
            "Erratum E15",
            "regard claims G2 --quick --seed 0",
        ] {
            assert!(page.contains(part), "no {part}");
        }
    }
}
