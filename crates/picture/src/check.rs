//! For tests: whether HTML or SVG is well formed, by a strict reader. It knows no more of a page than that
//! every tag is closed by its own, attributes are quoted and written once, and no `<` or `&` stands alone.

/// Elements of HTML that have no end.
const VOID: [&str; 4] = ["meta", "br", "hr", "img"];

/// What is wrong with the form of a text, if anything is.
///
/// ```
/// use regard_picture::check::fault;
///
/// assert_eq!(fault("<p class=\"a\">1 &lt; 2<br></p>"), None);
/// assert!(fault("<p><b>1</p></b>").unwrap().contains("`b` is open"));
/// ```
pub fn fault(text: &str) -> Option<String> {
    read(text).err()
}

fn read(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.strip_prefix("<!doctype html>").unwrap_or(text);
    while let Some(at) = rest.find('<') {
        entities(&rest[..at])?;
        let tag = &rest[at + 1..];
        let end = tag.find('>').ok_or_else(|| format!("a tag without an end: {}", begin(tag)))?;
        rest = &tag[end + 1..];
        let tag = &tag[..end];
        if let Some(name) = tag.strip_prefix('/') {
            match open.pop() {
                Some(own) if own == name => {}
                Some(own) => return Err(format!("`{name}` ends where `{own}` is open")),
                None => return Err(format!("`{name}` ends and never began")),
            }
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split(char::is_whitespace).next().unwrap_or_default();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("no name of a tag: {}", begin(tag)));
        }
        attributes(tag[name.len()..].trim())?;
        if name == "style" {
            // CSS is not HTML: it is read up to its end.
            let (css, after) = rest.split_once("</style>").ok_or("a style without an end")?;
            if css.contains('<') || css.matches('{').count() != css.matches('}').count() {
                return Err("a style whose braces do not match".into());
            }
            rest = after;
        } else if !closed && !VOID.contains(&name) {
            open.push(name);
        }
    }
    entities(rest)?;
    match open.pop() {
        Some(name) => Err(format!("`{name}` is never closed")),
        None => Ok(()),
    }
}

/// Text between tags, or the value of an attribute.
fn entities(text: &str) -> Result<(), String> {
    if let Some(c) = text.chars().find(|c| c.is_control() && !"\n\t".contains(*c)) {
        return Err(format!("the character {c:?} may not stand in a page"));
    }
    for after in text.split('&').skip(1) {
        let name = after.split_once(';').map(|(name, _)| name);
        if !name.is_some_and(|name| ["amp", "lt", "gt", "quot", "#39"].contains(&name)) {
            return Err(format!("a bare `&`: &{}", begin(after)));
        }
    }
    match text.contains('>') {
        true => Err(format!("a bare `>`: {}", begin(text))),
        false => Ok(()),
    }
}

fn attributes(mut text: &str) -> Result<(), String> {
    let mut seen: Vec<&str> = Vec::new();
    while !text.is_empty() {
        let (name, value) =
            text.split_once("=\"").ok_or_else(|| format!("no value in quotes: {}", begin(text)))?;
        let (value, after) =
            value.split_once('"').ok_or_else(|| format!("an open quote: {}", begin(text)))?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("no name of an attribute: {}", begin(name)));
        }
        if seen.contains(&name) {
            return Err(format!("the attribute `{name}` is there twice"));
        }
        seen.push(name);
        entities(value)?;
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(format!("no space after `{name}`"));
        }
        text = after.trim_start();
    }
    Ok(())
}

fn begin(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn faults_are_found() {
        for (text, words) in [
            ("<p>", "never closed"),
            ("</p>", "never began"),
            ("<p><b></p></b>", "`p` ends where `b` is open"),
            ("<p", "without an end"),
            ("< p>", "no name of a tag"),
            ("a & b", "bare `&`"),
            ("a > b", "bare `>`"),
            ("<p a=1></p>", "no value in quotes"),
            ("<p a=\"1\" a=\"2\"></p>", "twice"),
            ("<p a=\"1\"b=\"2\"></p>", "no space"),
            ("<p a=\"&\"></p>", "bare `&`"),
            ("<p>\u{1}</p>", "may not stand"),
            ("<style>a{</style>", "braces"),
        ] {
            let found = fault(text).unwrap_or_default();
            assert!(found.contains(words), "{text}: {found}");
        }
        assert_eq!(fault("<!doctype html>\n<p>1 &amp; 2<br><svg a-b=\"c\"/></p>"), None);
    }
}
