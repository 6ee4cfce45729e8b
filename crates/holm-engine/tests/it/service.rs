//! A request for a service reaches the driver, or is refused with a hint.

use crate::world::{Island, create, new, project};
use holm_core::Code;
use holm_core::config::{OnAssign, Restart};
use holm_core::service::Wish;
use holm_core::spec::Service;
use holm_engine::Created;

fn web() -> Service {
    Service {
        name: "web".to_owned(),
        run: "sleep 1000".to_owned(),
        image: None,
        ready: None,
        depends_on: Vec::new(),
        restart: Restart::OnFailure,
        on_assign: OnAssign::Restart,
        build: None,
        rebuild_when: Vec::new(),
        env: Vec::new(),
        port: Some(3000),
    }
}

#[tokio::test]
async fn wishes_reach_services_that_are_there_and_run() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let mut wanted = new(&shop, Some("fix"));
    wanted.spec.services = vec![web()];
    let Created::New(view) = create(&engine, wanted).await.unwrap() else {
        panic!("it is new");
    };
    assert_eq!(view.services[0].port, Some(3000));
    let id = view.record.id;
    engine.service(&id, "web", Wish::Restart).await.unwrap();
    let asked = island.world.with(|state| state.wishes.clone());
    assert_eq!(asked, [(id.to_string(), "web".to_owned(), Wish::Restart)]);

    let fault = engine.service(&id, "wbe", Wish::Stop).await.unwrap_err();
    assert_eq!(fault.code, Code::ServiceNotFound);
    assert!(fault.hint.contains("web"), "{fault:?}");
    let fault = engine.services_named(&id, &["wbe".to_owned()]).await;
    assert_eq!(fault.unwrap_err().code, Code::ServiceNotFound);
    assert_eq!(engine.services_named(&id, &[]).await.unwrap(), ["web"]);

    engine.stop(&id).await.unwrap();
    for fault in [
        engine.service(&id, "web", Wish::Start).await.unwrap_err(),
        engine.watch_services(&id).await.unwrap_err(),
    ] {
        assert_eq!(fault.code, Code::NotRunning);
        assert!(fault.hint.contains("holm start"), "{fault:?}");
    }
    let view = engine.show(&id).await.unwrap();
    assert_eq!(view.services[0].state, "stopped");
    assert_eq!(island.world.with(|state| state.wishes.len()), 1);
}
