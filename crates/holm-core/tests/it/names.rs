//! For every input: parsing names, ids and references never panics, and a parsed value prints as it
//! was typed.

use holm_core::config::{
    Address, Destination, Name, Pattern, Place, ProtectedPath, Root, Variable, parse_duration,
    parse_size,
};
use holm_core::reference::{Candidate, Here};
use holm_core::{Label, ProjectId, ProjectName, WorkspaceId, WorkspaceRef};
use proptest::prelude::*;

/// Texts near the rules: their letters, their separators, and anything.
fn near_names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9-]{0,45}",
        "w[0-9a-z]{11,13}",
        "p[0-9a-hjkmnp-tv-z]{12}",
        "[a-zA-Z0-9_./:~*\\[\\]!-]{0,20}",
        any::<String>(),
    ]
}

proptest! {
    // A failing case is printed; it is kept by writing a test for it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn labels_keep_their_rules(text in near_names()) {
        let parsed = Label::parse(&text);
        let right = !text.is_empty()
            && text.len() <= 40
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--")
            && text != "holm"
            && WorkspaceId::parse(&text).is_err();
        prop_assert_eq!(parsed.is_ok(), right);
        if let Ok(label) = parsed {
            prop_assert_eq!(label.as_str(), &text);
            prop_assert_eq!(label.to_string(), text);
            for number in [2, 10, 12345] {
                let numbered = label.numbered(number);
                prop_assert!(Label::parse(numbered.as_str()).is_ok(), "{}", numbered);
            }
        }
    }

    #[test]
    fn any_wish_is_a_project_name(text in near_names()) {
        let name = ProjectName::from_wish(&text);
        prop_assert!(ProjectName::parse(name.as_str()).is_ok());
        prop_assert!(ProjectName::parse(name.numbered(2).as_str()).is_ok());
        if let Ok(exact) = ProjectName::parse(&text) {
            prop_assert_eq!(exact.as_str(), &text);
        }
    }

    #[test]
    fn ids_are_read_as_printed(text in near_names()) {
        let printed = [
            WorkspaceId::parse(&text).map(|id| id.to_string()),
            ProjectId::parse(&text).map(|id| id.to_string()),
        ];
        for printed in printed.into_iter().flatten() {
            prop_assert_eq!(&printed, &text);
        }
    }

    #[test]
    fn a_reference_finds_only_what_it_names(typed in near_names(), label in "[a-z]{1,3}") {
        let candidates: Vec<_> = (0..3).map(|number| Candidate {
            id: WorkspaceId::random(),
            label: if number == 0 { label.clone() } else { format!("{label}-{number}") },
            project_id: ProjectId::random(),
            project: "shop".to_owned(),
        }).collect();
        if let Ok(found) = WorkspaceRef::new(&typed).resolve(&Here::default(), &candidates) {
            let candidate = candidates.iter().find(|candidate| candidate.id == found).unwrap();
            let by_label = candidate.label == typed || format!("shop/{}", candidate.label) == typed;
            prop_assert!(by_label || candidate.id.as_str().starts_with(&typed));
        }
        for candidate in &candidates {
            let id = candidate.id.as_str();
            let found = WorkspaceRef::new(id).resolve(&Here::default(), &candidates);
            prop_assert_eq!(found.as_ref(), Ok(&candidate.id));
        }
    }

    #[test]
    fn values_of_the_configuration_are_printed_as_they_were_written(text in near_names()) {
        if let Ok(name) = Name::parse(&text) {
            prop_assert_eq!(name.as_str(), &text);
        }
        if let Ok(variable) = Variable::parse(&text) {
            prop_assert_eq!(variable.as_str(), &text);
        }
        if let Ok(root) = Root::parse(&text) {
            prop_assert_eq!(root.as_str(), &text);
            prop_assert!(root.as_path().is_absolute());
        }
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(Address::parse(&address.to_string()), Ok(address));
        }
        if let Ok(destination) = Destination::parse(&text) {
            prop_assert_eq!(Destination::parse(&destination.to_string()), Ok(destination));
        }
        if let Ok(place) = Place::parse(&text) {
            prop_assert_eq!(Place::parse(&place.to_string()), Ok(place));
        }
        let _ = (parse_duration(&text), parse_size(&text));
    }

    #[test]
    fn relative_paths_stay_below_the_root(text in near_names()) {
        let paths = [
            ProtectedPath::parse(&text).map(|path| path.to_string()),
            Pattern::parse(&text).map(|path| path.to_string()),
        ];
        for path in paths.into_iter().flatten() {
            let parts: Vec<_> = std::path::Path::new(&path).components().collect();
            prop_assert!(!parts.is_empty());
            let normal = |part: &std::path::Component| matches!(part, std::path::Component::Normal(_));
            prop_assert!(parts.iter().all(normal), "{path}");
        }
    }
}
