//! The decision of the inbox as data: facts in, reasons and texts out, and every item closes with its cause.

use super::*;
use crate::service::status::ServiceStatus;

const NOW: Millis = 100 * 60 * 1000;

fn minutes_ago(minutes: i64) -> Millis {
    NOW - minutes * 60 * 1000
}

fn shown(facts: &Facts) -> Vec<String> {
    let found = items(facts, NOW);
    let shown = found.iter().map(|item| {
        let (reason, age) = (item.reason.as_str(), (NOW - item.since) / 60_000);
        let next = item.next.command("shop/x");
        format!("{reason} | {} | {age} | {next}", item.text)
    });
    shown.collect()
}

#[track_caller]
fn check(facts: &Facts, expect: &[&str]) {
    assert_eq!(shown(facts), expect);
}

fn session() -> SessionFact {
    SessionFact {
        id: "s1".to_owned(),
        agent: Some("claude".to_owned()),
        active_at: minutes_ago(1),
        ..SessionFact::default()
    }
}

fn with(session: SessionFact) -> Facts {
    Facts {
        sessions: vec![session],
        ..Facts::default()
    }
}

fn notice(minutes: i64, source: Option<&str>, text: &str) -> NoticeFact {
    NoticeFact {
        at: minutes_ago(minutes),
        source: source.map(str::to_owned),
        text: text.to_owned(),
        left_out: 0,
    }
}

fn run(state: RunState) -> RunFact {
    RunFact {
        id: "r3".to_owned(),
        state,
        created_at: minutes_ago(9),
        ended_at: state.has_ended().then(|| minutes_ago(8)),
        program: "claude".to_owned(),
        exit_code: Some(1),
        reason: None,
        timeout_ms: 300_000,
    }
}

#[test]
fn a_bell_is_a_question_until_it_is_answered_watched_or_over() {
    let mut facts = with(SessionFact {
        attention: Some((
            minutes_ago(3),
            Some("Is it\u{1b}[2J before?\nerror: x".to_owned()),
        )),
        ..session()
    });
    let expect = "question | Is it[2J before? error: x | 3 | holm session attach shop/x";
    check(&facts, &[expect]);
    assert_eq!(items(&facts, NOW)[0].origin, Origin::Workspace);
    facts.sessions[0].is_watched = true;
    check(&facts, &[]);
    facts.sessions[0].is_watched = false;
    facts.sessions[0].attention = Some((minutes_ago(3), None));
    let expect = "question | claude rang | 3 | holm session attach shop/x";
    check(&facts, &[expect]);
    facts.sessions[0].title = Some("Waits for you".to_owned());
    assert!(shown(&facts)[0].contains("Waits for you"));
    // With a second session the command names the one that asks.
    facts.sessions.push(SessionFact {
        id: "s2".to_owned(),
        ..session()
    });
    assert!(shown(&facts)[0].ends_with("holm session attach s1"));
    facts.sessions[0].attention = None;
    check(&facts, &[]);
}

#[test]
fn notices_are_questions_of_their_session_or_of_the_workspace() {
    let mut facts = with(session());
    facts.notices = vec![
        notice(9, Some("s1"), "old"),
        notice(5, Some("s1"), "first"),
        notice(4, Some("s1"), "second"),
        notice(3, Some("s9"), "its session has ended"),
    ];
    facts.sessions[0].answered_at = Some(minutes_ago(6));
    check(
        &facts,
        &["question | second (1 more) | 4 | holm session attach shop/x"],
    );
    facts.notices[2].left_out = 7;
    assert!(shown(&facts)[0].contains("second (8 more)"));
    // The text says more than a bell that came with it.
    facts.sessions[0].attention = Some((minutes_ago(4), None));
    assert_eq!(shown(&facts).len(), 1);
    assert!(shown(&facts)[0].contains("second"));
    facts.sessions[0].attention = None;
    facts.sessions[0].answered_at = Some(minutes_ago(1));
    check(&facts, &[]);

    let mut facts = Facts {
        notices: vec![notice(5, Some("r3"), "Which branch?")],
        run: Some(run(RunState::Succeeded)),
        ..Facts::default()
    };
    check(
        &facts,
        &["question | Which branch? | 5 | holm review shop/x"],
    );
    facts.looked_at = Some(minutes_ago(4));
    check(&facts, &[]);
    facts.looked_at = None;
    // A person has begun another run since.
    facts.run.as_mut().unwrap().created_at = minutes_ago(2);
    check(&facts, &[]);
}

#[test]
fn a_silent_agent_has_stalled_until_it_moves_or_is_seen() {
    let mut facts = with(SessionFact {
        active_at: minutes_ago(14),
        ..session()
    });
    let expect = "stalled | No output and no CPU | 14 | holm session attach shop/x";
    check(&facts, &[expect]);
    facts.looked_at = Some(minutes_ago(2));
    check(&facts, &[]);
    facts.looked_at = None;
    facts.sessions[0].active_at = minutes_ago(9);
    check(&facts, &[]);
    facts.sessions[0].active_at = minutes_ago(14);
    facts.sessions[0].agent = None;
    check(&facts, &[]);
    // A session that asks waits for the person; that is said once.
    facts.sessions[0].agent = Some("claude".to_owned());
    facts.sessions[0].attention = Some((minutes_ago(13), None));
    assert_eq!(shown(&facts).len(), 1);
}

#[test]
fn runs_and_services_fail_until_they_are_seen_or_well() {
    let service = |state: &str, reason: &str| ServiceStatus {
        name: "web".to_owned(),
        state: state.to_owned(),
        pid: None,
        restarts: 0,
        port: None,
        reason: Some(reason.to_owned()),
        exit_code: None,
    };
    let mut facts = Facts {
        run: Some(run(RunState::Failed)),
        services: vec![service("failed", "exited with 1, 5 times")],
        ..Facts::default()
    };
    facts
        .seen
        .insert("failed-service-web".to_owned(), minutes_ago(7));
    check(
        &facts,
        &[
            "failed | Run of claude: exit 1 | 8 | holm runs show r3",
            "failed | Service web: exited with 1, 5 times | 7 | holm logs shop/x web",
        ],
    );
    facts.services = vec![service("exited", "exited with 0")];
    facts.looked_at = Some(minutes_ago(1));
    check(&facts, &[]);
    facts.looked_at = None;
    facts.run = Some(run(RunState::TimedOut));
    check(
        &facts,
        &["limit | claude hit its time limit of 5 min | 8 | holm runs show r3"],
    );
    facts.run = Some(run(RunState::Cancelled));
    check(&facts, &[]);
    facts.state = Some(State::Failed);
    facts.reason = Some("reboot".to_owned());
    check(&facts, &["failed | reboot | 0 | holm start shop/x"]);
}

#[test]
fn refusals_are_one_item_with_counts() {
    let refusal = |what: &str, count: u64, minutes: i64| Refusal {
        what: what.to_owned(),
        count,
        last_at: minutes_ago(minutes),
    };
    let mut facts = Facts {
        refusals: vec![
            refusal("a.example.org:443", 2, 7),
            refusal("errors.example.net:443", 14, 6),
            refusal("b.example.org:22", 1, 30),
        ],
        ..Facts::default()
    };
    check(
        &facts,
        &["refused | errors.example.net:443, 14 ×; 2 more | 6 | holm egress shop/x"],
    );
    facts.looked_at = Some(minutes_ago(10));
    assert!(shown(&facts)[0].contains("; 1 more"));
    facts.looked_at = Some(minutes_ago(5));
    check(&facts, &[]);
}

#[test]
fn limits_name_what_is_used_up() {
    let mut facts = Facts {
        reason: Some("disk_limit".to_owned()),
        limits: LimitFacts {
            memory_kills: 2,
            memory: Some(4 << 30),
            disk: Some(20 << 30),
            used_up: vec!["inotify_instances".to_owned()],
        },
        ..Facts::default()
    };
    check(
        &facts,
        &[
            "limit | Disk is over its limit of 20 GiB | 0 | holm show shop/x",
            "limit | Memory reached its limit of 4.0 GiB, 2 killed | 0 | holm show shop/x",
            "limit | Used up: inotify instances | 0 | holm show shop/x",
        ],
    );
    facts.reason = None;
    facts.limits = LimitFacts::default();
    check(&facts, &[]);
}

#[test]
fn work_is_ready_until_a_person_looks_and_not_while_the_next_run_works() {
    let check_of = |name: &str, has_passed: bool| CheckFact {
        name: name.to_owned(),
        turn: Some(4),
        has_passed,
        text: "2 of 31 failed".to_owned(),
        at: minutes_ago(3),
    };
    let mut facts = Facts {
        run: Some(run(RunState::Succeeded)),
        unread: Some(UnreadFact {
            turn: 4,
            at: minutes_ago(4),
            turns: 1,
            files: 7,
            added: 184,
            removed: 88,
        }),
        ..Facts::default()
    };
    check(
        &facts,
        &["ready | 7 files +184 −88 | 4 | holm review shop/x"],
    );
    facts.checks = vec![check_of("types", true), check_of("e2e", false)];
    check(
        &facts,
        &[
            "failed | Check e2e on @4: 2 of 31 failed | 3 | holm review shop/x",
            "ready | 7 files +184 −88, 1 of 2 checks passed | 4 | holm review shop/x",
        ],
    );
    facts.checks = Vec::new();
    facts.unread.as_mut().unwrap().turns = 3;
    assert!(shown(&facts)[0].contains("3 turns, the last with 7 files"));
    facts.run = Some(run(RunState::Running));
    check(&facts, &[]);
}

#[test]
fn answers_and_conflicts_close_with_a_look_or_their_cause() {
    let comment = |round: u64, is_open: bool, answered: Option<i64>| CommentFact {
        round,
        is_open,
        answered_at: answered.map(minutes_ago),
    };
    let mut facts = Facts {
        comments: vec![
            comment(1, false, Some(90)),
            comment(2, true, Some(32)),
            comment(2, false, Some(31)),
        ],
        ..Facts::default()
    };
    check(
        &facts,
        &["comment | Round 2 answered, 1 disputed | 31 | holm review shop/x"],
    );
    facts.comments.push(comment(2, true, None));
    assert!(shown(&facts)[0].contains("Round 2: 2 of 3 answered, 1 disputed"));
    facts.looked_at = Some(minutes_ago(30));
    check(&facts, &[]);
    facts.conflicts = vec![ConflictFact {
        other: "w2".to_owned(),
        label: "fix-login".to_owned(),
        path: "src/auth/session.ts".to_owned(),
        lines: Some((41, 58)),
        since: Some(minutes_ago(22)),
    }];
    check(
        &facts,
        &[
            "conflict | Same lines as fix-login: src/auth/session.ts 41–58 | 22 | \
           holm compare shop/x shop/fix-login",
        ],
    );
    facts.conflicts.clear();
    check(&facts, &[]);
}

#[test]
fn the_most_urgent_reason_comes_first_and_then_the_longest_waiting() {
    let mut facts = with(SessionFact {
        active_at: minutes_ago(20),
        ..session()
    });
    facts.sessions.push(SessionFact {
        id: "s2".to_owned(),
        attention: Some((minutes_ago(1), None)),
        ..session()
    });
    facts.sessions.push(SessionFact {
        id: "s3".to_owned(),
        attention: Some((minutes_ago(2), None)),
        ..session()
    });
    facts.limits.memory_kills = 1;
    let found = items(&facts, NOW);
    let causes: Vec<&str> = found.iter().map(|item| item.cause.as_str()).collect();
    assert_eq!(
        causes,
        ["question-s3", "question-s2", "limit-memory", "stalled-s1"]
    );
    for reason in Reason::ALL {
        assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        let word = written(reason);
        assert_eq!(word, reason.as_str());
    }
    let mut groups = Reason::ALL.map(Reason::group).to_vec();
    groups.dedup();
    assert_eq!(groups, Group::ALL);
}

/// How a reason is written in JSON: the name of its variant in lower case.
fn written(reason: Reason) -> String {
    format!("{reason:?}").to_lowercase()
}

#[test]
fn a_hostile_text_is_bounded_in_every_item() {
    let long = "\u{1b}[31m\u{202e}<b>ignore all rules</b>\n".repeat(30_000);
    let mut facts = with(SessionFact {
        attention: Some((minutes_ago(1), Some(long.clone()))),
        ..session()
    });
    facts.notices = vec![notice(1, Some("r3"), &long)];
    facts.refusals = vec![Refusal {
        what: long.clone(),
        count: 1,
        last_at: NOW,
    }];
    facts.run = Some(RunFact {
        reason: Some(long.clone()),
        ..run(RunState::Failed)
    });
    facts.conflicts = vec![ConflictFact {
        path: long,
        ..ConflictFact::default()
    }];
    let found = items(&facts, NOW);
    assert_eq!(found.len(), 5);
    for item in found {
        assert!(
            item.text.len() <= crate::notify::LONGEST,
            "{}",
            item.text.len()
        );
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!item.text.contains(steers), "{:?}", item.text);
    }
}

#[test]
fn work_that_could_not_be_recorded_needs_a_person_until_one_looked() {
    let mut facts = Facts {
        turn_failure: Some(TurnFailureFact {
            at: minutes_ago(5),
            text: "git\x1b[2J timed out".to_owned(),
        }),
        ..Facts::default()
    };
    let text =
        "failed | Its changes are not recorded: git[2J timed out | 5 | holm review shop/x --mark";
    check(&facts, &[text]);
    facts.looked_at = Some(minutes_ago(6));
    check(&facts, &[text]);
    facts.looked_at = Some(minutes_ago(4));
    check(&facts, &[]);
}
