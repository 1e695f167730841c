//! Evidence as people and programs read it: lines with their places, verdicts in a sentence.

use regard_evidence::{Evidence, Index, Judgement, Line, Place, Scored, reliability, risk_coverage};
use regard_picture::{Axis, Chart, escaped, side_by_side};
use serde_json::{Value, json};

/// How often confidence is right, and what answering only the surest leaves of errors: the model's own and
/// the calibrated one, side by side.
pub fn confidence_figures(scored: [&[Scored]; 2]) -> String {
    let share = |name: &str| Axis::new(name).covering(&[0.0, 1.0]);
    let mut diagram = Chart::new("Confidence and how often it is right", share("confidence"), share("right"))
        .dashed("as it should be", [(0.0, 0.0), (1.0, 1.0)]);
    let title = "Errors against how many are answered, the surest first";
    let mut curve = Chart::new(title, share("answered"), share("wrong"));
    for (name, scored) in ["the model's own", "calibrated"].into_iter().zip(scored) {
        diagram = diagram.line(name, reliability(scored).iter().map(|bin| (bin.confidence, bin.right)));
        curve = curve.line(name, risk_coverage(scored));
    }
    side_by_side(&[diagram, curve].map(|chart| chart.captioned(escaped)).concat())
}

/// A place in a few words: `wiki.txt:12`.
pub fn source(index: &Index, place: &Place) -> String {
    let path = &index.files()[place.file].path;
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    format!("{name}:{}", place.line)
}

/// A place for programs.
pub fn place_json(index: &Index, place: &Place) -> Value {
    json!({"file": index.files()[place.file].path, "line": place.line, "offset": place.offset})
}

/// Characters of a line that are shown to either side of what matters.
const SIDE: usize = 110;

/// A line, short enough to be read: what is named in it stays in sight, in these marks.
pub fn line_text(line: &Line, names: Option<(usize, usize)>, marks: (&str, &str)) -> String {
    let (from, to) = names.unwrap_or((0, 0));
    let before: Vec<char> = plain(&line.text[..from]).chars().collect();
    let behind: Vec<char> = plain(&line.text[to..]).chars().collect();
    let first = before.len().saturating_sub(SIDE);
    let last = behind.len().min(2 * SIDE);
    let (opens, closes) = if names.is_some() { marks } else { ("", "") };
    let mut text = String::new();
    text += if first > 0 { "…" } else { "" };
    text.extend(&before[first..]);
    text += opens;
    text += &plain(&line.text[from..to]);
    text += closes;
    text.extend(&behind[..last]);
    text += if last < behind.len() || line.cut { "…" } else { "" };
    text
}

/// Text without what could paint a terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn named(one: &Evidence) -> Option<(usize, usize)> {
    one.names.as_ref().map(|(_, at)| (at.start, at.end))
}

/// A verdict with its lines, a line of text for each.
pub fn verdict_lines(index: &Index, judged: &Judgement, marks: (&str, &str)) -> Vec<String> {
    let mut lines = Vec::new();
    let how = judged.how.map(|how| format!(", named {}", how.name())).unwrap_or_default();
    let subject = match &judged.subject {
        None => "; the question names nobody that the text knows".to_string(),
        Some(subject) if subject.count == 0 => format!("; the text does not know “{}”", plain(&subject.text)),
        Some(subject) => format!("; about “{}”", plain(&subject.text)),
    };
    lines.push(format!("{}{how}{subject}", judged.verdict.name()));
    for one in judged.lines.iter().take(2) {
        let text = line_text(&one.line, named(one), marks);
        lines.push(format!("{}  {text}", source(index, &one.line.place)));
    }
    for one in judged.against.iter().take(1) {
        let text = line_text(&one.line, None, marks);
        lines.push(format!("but {}  {text}", source(index, &one.line.place)));
    }
    lines
}

/// A judgement for programs.
pub fn judgement_json(index: &Index, judged: &Judgement) -> Value {
    let line = |one: &Evidence| {
        let mut page = place_json(index, &one.line.place);
        page["text"] = json!(one.line.text);
        page["cut"] = json!(one.line.cut);
        page["names"] = json!(named(one).map(|(from, to)| [from, to]));
        page
    };
    json!({
        "verdict": judged.verdict.name(),
        "subject": judged.subject.as_ref().map(|subject| &subject.text),
        "subject_count": judged.subject.as_ref().map(|subject| subject.count),
        "named": judged.how.map(|how| how.name()),
        "lines": judged.lines.iter().map(line).collect::<Vec<_>>(),
        "against": judged.against.iter().map(line).collect::<Vec<_>>(),
    })
}
