//! A service of a compose file, as far as `init` reads it.

#[derive(Default)]
pub struct Entry {
    /// As written in the file.
    pub name: String,
    pub image: Option<String>,
    pub build: Option<String>,
    pub command: Option<String>,
    pub environment: Vec<Variable>,
    pub env_files: Vec<String>,
    pub ports: Vec<Mapping>,
    pub depends_on: Vec<String>,
    pub profiles: Vec<String>,
    /// Scripts that the image runs when its database is new.
    pub first_start: Vec<String>,
}

// === impl Entry ===

impl Entry {
    pub fn set(&mut self, name: &str, value: String) {
        self.environment.push(Variable {
            name: name.to_owned(),
            value: Some(value),
        });
    }
}

pub struct Variable {
    pub name: String,
    /// `None`: the value comes from the environment of the process that starts it.
    pub value: Option<String>,
}

pub struct Mapping {
    pub inside: u16,
    pub published: Option<String>,
}
