//! Compose's variables in values: `$NAME`, `${NAME}` and the forms `:-` `-` `:?` `?` `:+` `+`, which may be
//! nested. `$$` is a dollar sign.

/// The nesting limit of `${A:-${B:-x}}`.
const DEEPEST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpolationError {
    #[error("`${{` has no `}}`")]
    Open,
    #[error("`{0}` is not a form of variable; write `$$` for a dollar sign")]
    Form(String),
    #[error("variable `{name}` is required: {message}")]
    Required { name: String, message: String },
    #[error("variables are nested deeper than {DEEPEST} levels")]
    Deep,
}

/// Replaces the variables of `text`. `lookup` returns the value of a variable; `missing` is called with each
/// name that has neither a value nor a default and becomes empty.
pub fn interpolate(
    text: &str,
    lookup: &mut dyn FnMut(&str) -> Option<String>,
    missing: &mut dyn FnMut(&str),
) -> Result<String, InterpolationError> {
    Expansion { lookup, missing }.expand(text, DEEPEST)
}

struct Expansion<'a> {
    lookup: &'a mut dyn FnMut(&str) -> Option<String>,
    missing: &'a mut dyn FnMut(&str),
}

// === impl Expansion ===

impl Expansion<'_> {
    fn expand(&mut self, text: &str, depth: usize) -> Result<String, InterpolationError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('$') {
                filled.push('$');
                rest = behind;
            } else if let Some(inside) = rest.strip_prefix('{') {
                let end = closing(inside).ok_or(InterpolationError::Open)?;
                filled.push_str(&self.braced(&inside[..end], depth)?);
                rest = &inside[end + 1..];
            } else {
                let length = name_length(rest);
                if length == 0 {
                    // A dollar sign before anything else stays.
                    filled.push('$');
                } else {
                    filled.push_str(&self.plain(&rest[..length]));
                }
                rest = &rest[length..];
            }
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn plain(&mut self, name: &str) -> String {
        let value = (self.lookup)(name);
        value.unwrap_or_else(|| {
            (self.missing)(name);
            String::new()
        })
    }

    fn braced(&mut self, expression: &str, depth: usize) -> Result<String, InterpolationError> {
        let deeper = depth.checked_sub(1).ok_or(InterpolationError::Deep)?;
        let length = name_length(expression);
        let (name, form) = expression.split_at(length);
        let wrong = || InterpolationError::Form(format!("${{{expression}}}"));
        if name.is_empty() {
            return Err(wrong());
        }
        if form.is_empty() {
            return Ok(self.plain(name));
        }
        let (fits_empty, form) = match form.strip_prefix(':') {
            Some(form) => (false, form),
            None => (true, form),
        };
        let value = (self.lookup)(name).filter(|value| fits_empty || !value.is_empty());
        let mut operators = form.chars();
        let operator = operators.next();
        let word = operators.as_str();
        match (operator, value) {
            (Some('-'), None) => self.expand(word, deeper),
            (Some('-' | '?'), Some(value)) => Ok(value),
            (Some('+'), Some(_)) => self.expand(word, deeper),
            (Some('+'), None) => Ok(String::new()),
            (Some('?'), None) => Err(InterpolationError::Required {
                name: name.to_owned(),
                message: match self.expand(word, deeper)? {
                    message if message.is_empty() => "it has no value".to_owned(),
                    message => message,
                },
            }),
            _ => Err(wrong()),
        }
    }
}

fn name_length(text: &str) -> usize {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !is_name(c)).unwrap_or(text.len())
}

/// The position of the brace that closes the expression at the start of `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1_usize;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        match character {
            '{' if before == '$' => open += 1,
            '}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
        before = character;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> (Result<String, String>, Vec<String>) {
        let mut names = Vec::new();
        let mut lookup = |name: &str| match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let result = interpolate(text, &mut lookup, &mut |name| names.push(name.to_owned()));
        (result.map_err(|error| error.to_string()), names)
    }

    #[test]
    fn all_forms() {
        let check =
            |text: &str, expect: &str| assert_eq!(filled(text).0.as_deref(), Ok(expect), "{text}");
        check("plain", "plain");
        check("$SET-${SET}.", "value-value.");
        check(
            "${SET:-x}${SET-x}${EMPTY:-x}${EMPTY-x}${NOT-x}",
            "valuevaluexx",
        );
        check(
            "${SET:+x}${SET+x}${EMPTY:+x}${EMPTY+x}${NOT+x}${NOT:+x}",
            "xxx",
        );
        check("${SET:?no}${EMPTY?no}", "value");
        check("${NOT:-${EMPTY:-${SET}}}", "value");
        check("${NOT:-{\"a\"}", "{\"a\"");
        check("$$SET $${SET} 5$ $1 $.", "$SET ${SET} 5$ $1 $.");
        check("${NOT:-a:b-c}", "a:b-c");
    }

    #[test]
    fn missing_and_wrong_ones() {
        assert_eq!(
            filled("a${NOT}b$NO"),
            (Ok("ab".to_owned()), vec!["NOT".to_owned(), "NO".to_owned()])
        );
        let check =
            |text: &str, expect: &str| assert_eq!(filled(text).0, Err(expect.to_owned()), "{text}");
        check(
            "${NOT:?set it, $SET}",
            "variable `NOT` is required: set it, value",
        );
        check(
            "${EMPTY:?}",
            "variable `EMPTY` is required: it has no value",
        );
        check("${SET", "`${` has no `}`");
        check(
            "${}",
            "`${}` is not a form of variable; write `$$` for a dollar sign",
        );
        check(
            "${SET/a/b}",
            "`${SET/a/b}` is not a form of variable; write `$$` for a dollar sign",
        );
        check(&"${A:-".repeat(5000), "`${` has no `}`");
        let deep = format!("{}x{}", "${A:-".repeat(50), "}".repeat(50));
        check(&deep, "variables are nested deeper than 8 levels");
    }
}
