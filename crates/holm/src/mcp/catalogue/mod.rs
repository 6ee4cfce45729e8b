//! The tools as data, in groups. Their names and arguments are part of the product.

/// A group of tools: name, title, nature and reach; the description; then the arguments. An argument
/// with `?` can be left out. The method of [`Call`](super::Call) with the tool's name performs it.
macro_rules! tools {
    ($(
        $name:ident $title:literal $nature:ident $reach:ident
        $description:literal
        { $($argument:tt)* }
    )*) => {
        pub static TOOLS: &[super::Tool] = &[$(super::Tool {
            name: stringify!($name),
            title: $title,
            description: $description,
            arguments: &[$(tools!(@ $argument)),*],
            nature: super::Nature::$nature,
            reach: super::Reach::$reach,
            perform: |call| Box::pin(call.$name()),
        }),*];
    };
    (@ ($name:ident: $form:ident $description:literal)) => {
        super::needed(stringify!($name), super::Form::$form, $description)
    };
    (@ ($name:ident?: $form:ident $description:literal)) => {
        super::optional(stringify!($name), super::Form::$form, $description)
    };
    (@ $shared:ident) => { $shared };
}

mod contents;
mod execution;
mod workspaces;

use super::Call;
use holm_core::Fault;
use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;

#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    title: &'static str,
    description: &'static str,
    pub arguments: &'static [Argument],
    nature: Nature,
    /// The narrowest server that offers it.
    reach: Reach,
    pub perform: Perform,
}

#[derive(Debug)]
pub struct Argument {
    pub name: &'static str,
    pub form: Form,
    need: Need,
    description: &'static str,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Words,
    Number,
    Flag,
    Map,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Always,
    /// Not required by a server for one workspace.
    UnlessScoped,
    Never,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Reads,
    /// Adds or changes what can be restored.
    Changes,
    /// Idempotent.
    Settles,
    Destroys,
}

/// The scope of a server; each includes those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// A program inside a workspace.
    Inside,
    /// A client outside, for one workspace.
    Workspace,
    Everything,
}

/// Performs a tool; the value is its result.
pub type Perform = for<'a, 'b> fn(&'a Call<'b>) -> Performing<'a>;
type Performing<'a> = Pin<Box<dyn Future<Output = Result<Value, Fault>> + Send + 'a>>;

const WORKSPACE: Argument = argument(
    "workspace",
    Form::Text,
    Need::UnlessScoped,
    "a label, project/label, an id, or the beginning of an id",
);

const fn argument(
    name: &'static str,
    form: Form,
    need: Need,
    description: &'static str,
) -> Argument {
    Argument {
        name,
        form,
        need,
        description,
    }
}

const fn optional(name: &'static str, form: Form, description: &'static str) -> Argument {
    argument(name, form, Need::Never, description)
}

const fn needed(name: &'static str, form: Form, description: &'static str) -> Argument {
    argument(name, form, Need::Always, description)
}

pub fn all() -> impl Iterator<Item = &'static Tool> {
    let groups = workspaces::TOOLS.iter().chain(execution::TOOLS);
    groups.chain(contents::TOOLS)
}

pub fn find(name: &str) -> Option<&'static Tool> {
    all().find(|tool| tool.name == name)
}

// === impl Tool ===

impl Tool {
    pub fn is_within(&self, reach: Reach) -> bool {
        self.reach <= reach
    }

    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    pub fn on_wire(&self, is_scoped: bool) -> rmcp::model::Tool {
        let described = rmcp::model::Tool::new(self.name, self.description, self.schema(is_scoped));
        described
            .with_title(self.title)
            .with_raw_output_schema(Arc::new(object(json!({ "type": "object" }))))
            .with_annotations(self.nature.annotations(self.title))
    }

    fn schema(&self, is_scoped: bool) -> Arc<JsonObject> {
        let properties = self.arguments.iter().map(|argument| {
            let mut schema = argument.form.schema();
            schema["description"] = json!(argument.description);
            (argument.name.to_owned(), schema)
        });
        let needed = self.arguments.iter();
        let needed = needed.filter(|argument| argument.is_needed(is_scoped));
        let needed: Vec<_> = needed.map(|argument| argument.name).collect();
        let properties: JsonObject = properties.collect();
        Arc::new(object(json!({
            "type": "object",
            "properties": properties,
            "required": needed,
            "additionalProperties": false,
        })))
    }
}

// === impl Argument ===

impl Argument {
    pub fn is_needed(&self, is_scoped: bool) -> bool {
        match self.need {
            Need::Always => true,
            Need::UnlessScoped => !is_scoped,
            Need::Never => false,
        }
    }
}

// === impl Form ===

impl Form {
    fn schema(self) -> Value {
        match self {
            Form::Text => json!({ "type": "string" }),
            Form::Words => json!({ "type": "array", "items": { "type": "string" } }),
            Form::Number => json!({ "type": "integer", "minimum": 0 }),
            Form::Flag => json!({ "type": "boolean" }),
            Form::Map => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            Form::Time => json!({ "type": ["string", "number"] }),
        }
    }
}

// === impl Nature ===

impl Nature {
    fn annotations(self, title: &str) -> ToolAnnotations {
        ToolAnnotations::with_title(title)
            .read_only(self == Nature::Reads)
            .destructive(self == Nature::Destroys)
            .idempotent(matches!(self, Nature::Reads | Nature::Settles))
            .open_world(false)
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_tools_are_those_of_the_contract() {
        let contract = "project_create project_list workspace_create workspace_list workspace_show \
            workspace_start workspace_stop workspace_remove workspace_restore workspace_rename \
            workspace_assign workspace_sync exec run runs_list session_spawn session_message session_read \
            session_wait changes diff file_list file_read file_write logs ports checkout snapshot fork reset \
            service_restart here inbox notify turns review check compare comments_list comment_reply comment_resolve";
        let contract: BTreeSet<_> = contract.split_whitespace().collect();
        let ours: BTreeSet<_> = all().map(|tool| tool.name).collect();
        assert_eq!(ours, contract);
        assert_eq!(all().count(), contract.len());
    }

    #[test]
    fn what_changes_something_is_never_said_to_read() {
        for tool in all() {
            let wire = tool.on_wire(false);
            let annotations = wire.annotations.unwrap();
            let reads = annotations.read_only_hint == Some(true);
            let word = tool.name.rsplit('_').next().unwrap();
            let changes = [
                "create", "start", "stop", "remove", "restore", "rename", "assign", "write",
                "exec", "run",
            ];
            assert!(!(reads && changes.contains(&word)), "{}", tool.name);
            let names: BTreeSet<_> = tool.arguments.iter().map(|one| one.name).collect();
            assert_eq!(names.len(), tool.arguments.len(), "{}", tool.name);
        }
        assert!(
            !find("workspace_create")
                .unwrap()
                .is_within(Reach::Workspace)
        );
        assert!(find("exec").unwrap().is_within(Reach::Inside));
    }
}
