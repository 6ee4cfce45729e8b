//! Finds ports in source code. A file that shows two different ports gives none.

use std::collections::BTreeSet;

/// The text before a port, for each language.
const SCRIPT: [&str; 11] = [
    ".listen(",
    "PORT || ",
    "PORT ?? ",
    "PORT||",
    "PORT??",
    "PORT, ",
    "PORT) || ",
    "PORT) ?? ",
    "port = ",
    "PORT = ",
    "port: ",
];
/// The text before the default of the variable `PORT`.
const VARIABLE: [&str; 7] = [
    "PORT || ",
    "PORT ?? ",
    "PORT||",
    "PORT??",
    "PORT, ",
    "PORT) || ",
    "PORT) ?? ",
];
/// The text before a port in Go.
const GO: [&str; 5] = ["port = ", "port := ", "Port = ", "Port := ", "\"PORT\", "];
const VITE: [&str; 1] = ["port: "];

/// The port of a program in JavaScript or TypeScript.
pub fn script_port(text: &str) -> Option<u16> {
    only(behind(text, &SCRIPT))
}

/// The default of the variable `PORT`, in a file with other settings.
pub fn port_variable_default(text: &str) -> Option<u16> {
    only(behind(text, &VARIABLE))
}

/// Whether a program reads the variable `PORT`.
pub fn reads_port(text: &str) -> bool {
    [
        "env.PORT",
        "env[\"PORT\"]",
        "env['PORT']",
        "Getenv(\"PORT\")",
    ]
    .iter()
    .any(|use_of_it| text.contains(use_of_it))
}

/// The port in a Go program, where it is not part of an address.
pub fn go_port(text: &str) -> Option<u16> {
    only(behind(text, &GO))
}

/// The port in a `vite.config`.
pub fn vite_port(text: &str) -> Option<u16> {
    only(behind(text, &VITE))
}

/// The port in an address literal: `":8080"`, `"127.0.0.1:3000"`.
pub fn address_port(text: &str) -> Option<u16> {
    let ends = text.match_indices('"').filter_map(|(at, _)| {
        let before = &text[..at];
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (rest, number) = before.split_at(before.len() - digits);
        let number = rest.ends_with(':').then_some(number)?;
        plausible(number)
    });
    only(ends)
}

fn behind<'a>(text: &'a str, starts: &'a [&str]) -> impl Iterator<Item = u16> + 'a {
    let found = starts.iter().flat_map(move |start| {
        let places = text.match_indices(start);
        places.map(move |(at, _)| &text[at + start.len()..])
    });
    found.filter_map(|rest| {
        let rest = rest.trim_start_matches([' ', '"', '\'', '(', ':']);
        let rest = rest.strip_prefix("Number(").unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        plausible(&rest[..digits])
    })
}

/// Smaller numbers are something else, because ordinary programs cannot listen there.
fn plausible(number: &str) -> Option<u16> {
    number.parse().ok().filter(|port| *port >= 80)
}

fn only(ports: impl Iterator<Item = u16>) -> Option<u16> {
    let ports: BTreeSet<u16> = ports.collect();
    ports.first().copied().filter(|_| ports.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_scripts() {
        let check = |text: &str, expect| assert_eq!(script_port(text), expect, "{text}");
        check("app.listen(3000, () => {})", Some(3000));
        check(
            "const port = process.env.PORT || 4000;\napp.listen(port)",
            Some(4000),
        );
        check("Number(process.env.PORT ?? '4000')", Some(4000));
        check("app.listen(3000); admin.listen(3001)", None);
        check("app.listen(port)", None);
        check("const retries = 3", None);
    }

    #[test]
    fn ports_in_addresses() {
        let check = |text: &str, expect| assert_eq!(address_port(text), expect, "{text}");
        check("http.ListenAndServe(\":8080\", nil)", Some(8080));
        check("listen(\"0.0.0.0:3000\")", Some(3000));
        check("bind(\"[::1]:3000\"); other(\"x:4000\")", None);
        check("\"a:b\"", None);
        check("", None);
    }
}
