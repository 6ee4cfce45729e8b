//! Ends a service with everything that it started, in a thread of its own.

use super::hooks::Beside;
use super::{Mailbox, STACK, Supervisor, image, run};
use holm_core::service::Event;
use std::sync::Arc;
use std::time::Duration;

// === impl Supervisor ===

impl Supervisor {
    /// Signals the process group at once; a helper inside signals the service's other processes. The first process of
    /// a service in a room gets the stop signal of its image.
    pub(super) fn end(&mut self, index: usize, signal: i32, grace: Duration) {
        let current = &self.runs[index];
        let name = current.service.name.clone();
        let leader = current.pid.unwrap_or_default();
        let is_in_room = current.service.image.is_some();
        let room = self.registry.rooms.find(&name);
        let is_up = self.graph.life(index).pid().is_some();
        if let Some(place) = self.registry.present_place()
            && is_up
            && !is_in_room
        {
            self.registry
                .signal_at(&place, leader.cast_signed(), signal);
        }
        let mailbox = Mailbox {
            services: Arc::clone(&self.services),
            index,
            run: current.number,
        };
        let registry = Arc::clone(&self.registry);
        let (service, log) = (Arc::clone(&current.service), Arc::clone(&current.log));
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn(move || {
            match room {
                Some(room) => {
                    let plan = registry.room_plan(&name);
                    let stop = plan.map_or(signal, |plan| plan.start.stop_signal);
                    let is_gentle = signal != libc::SIGKILL && is_up;
                    let entered = image::entered(&registry, &service, Arc::clone(&room));
                    if let Some(entered) = entered.filter(|_| is_gentle) {
                        let registry = Arc::clone(&registry);
                        let beside = Beside {
                            registry,
                            service,
                            entered,
                            log,
                            mailbox: mailbox.clone(),
                        };
                        beside.end();
                    }
                    let gently = is_gentle.then_some((stop, grace));
                    image::end(&registry, &room, leader.cast_signed(), gently);
                }
                // Its room has ended with all processes. The pid may be that of another program by now.
                None if is_in_room => {}
                None => run::end_all(&registry, &name, leader, grace),
            }
            mailbox.tell(Event::Gone);
        });
        if let Err(error) = spawned {
            // The group got the signal; the time limit handles the rest.
            complain!("a service cannot be ended: {error}");
        }
    }
}
