//! A port that cannot be opened: the owner hears of it once, and once that it is open.

use std::future::ready;
use std::time::Duration;

use peacrab::bus::notices;
use peacrab::channels::web::GatewayPort;
use peacrab::daemon::gateway::port::follow;
use peacrab::replies;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::browser::config;
use crate::support::rig::{Rig, RigOptions};

/// A state of the port, with the minute in which it begins.
type PortAt = (u64, GatewayPort);

fn refused(reason: &str) -> GatewayPort {
    GatewayPort::Refused(reason.to_owned())
}

/// The minutes in which the owner is told in the course of a day that begins unopened. The first `failures` attempts fail.
async fn minutes_told(course: &[PortAt], failures: usize) -> Vec<PortAt> {
    let begun = Instant::now();
    let minute = |minute: u64| begun + Duration::from_secs(60 * minute);
    let port = watch::Sender::new(GatewayPort::Unopened);
    let mut told = Vec::new();
    let follow = follow(port.subscribe(), |state| {
        told.push((begun.elapsed().as_secs() / 60, state));
        ready(told.len() > failures)
    });
    let happen = async move {
        for (at, state) in course {
            sleep_until(minute(*at)).await;
            port.send_replace(state.clone());
        }
        sleep_until(minute(24 * 60)).await;
    };
    tokio::join!(follow, happen);
    told
}

#[tokio::test(start_paused = true)]
async fn a_port_is_told_once_after_some_minutes_and_once_when_it_is_open() {
    use GatewayPort::Open;
    let told = async |course: &[PortAt]| minutes_told(course, 0).await;
    // It opens at once, or soon.
    assert_eq!(told(&[(0, Open)]).await, [(0, Open)]);
    assert_eq!(told(&[(0, refused("in use")), (4, Open)]).await, [(4, Open)]);
    let course = [(0, refused("in use")), (60, refused("denied")), (90, Open)];
    assert_eq!(told(&course).await, [(5, refused("in use")), (90, Open)]);
    // The time counts from the first refusal, and the last reason is told.
    let course = [(0, refused("in use")), (3, refused("denied"))];
    assert_eq!(told(&course).await, [(5, refused("denied"))]);
    let course = [(0, Open), (10, refused("in use")), (12, Open), (20, refused("in use"))];
    assert_eq!(told(&course).await, [(0, Open), (25, refused("in use"))]);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_is_told_later() {
    let state = refused("in use");
    let told = minutes_told(&[(0, state.clone())], 2).await;
    assert_eq!(told, [(5, state.clone()), (6, state.clone()), (7, state)]);
}

#[tokio::test]
async fn a_trouble_and_its_end_are_told_once_also_across_restarts() {
    let mut rig = Rig::new().await;
    let bus = |rig: &Rig| rig.heart.as_ref().unwrap().services.bus.clone();
    let tell = async |rig: &Rig, detail: &str| {
        let words = format!("{detail} is taken");
        notices::tell_of_trouble(&bus(rig), "a port", detail, words).await.unwrap()
    };
    let end = async |rig: &Rig| {
        notices::tell_of_end(&bus(rig), "a port", "it is open".to_owned()).await.unwrap();
    };
    // Nobody is there to be told.
    assert!(!tell(&rig, "80").await);
    rig.ask("1", "hello").await;
    end(&rig).await;
    assert!(tell(&rig, "80").await);
    assert_eq!(rig.next_message("1").await, "80 is taken");
    assert!(tell(&rig, "80").await);
    rig.stop_and_start_again().await;
    assert!(tell(&rig, "80").await);
    // The owner has chosen another one.
    assert!(tell(&rig, "81").await);
    assert_eq!(rig.next_message("1").await, "81 is taken");
    end(&rig).await;
    assert_eq!(rig.next_message("1").await, "it is open");
    end(&rig).await;
    rig.ask("1", "hello again").await;
    assert_eq!(rig.unread("1"), [""; 0]);
    // It is a new trouble.
    assert!(tell(&rig, "81").await);
    assert_eq!(rig.next_message("1").await, "81 is taken");
    rig.finish().await;
}

#[tokio::test]
async fn the_owner_hears_after_a_restart_that_the_port_is_open() {
    let config = config();
    let listen = config.listen;
    let mut rig = Rig::of(RigOptions { gateway: Some(config), ..RigOptions::default() }).await;
    rig.ask("1", "hello").await;
    rig.stop().await;
    rig.execute(&format!("INSERT INTO notices (key, at) VALUES ('gateway port {listen}', 1)"));
    rig.start().await;
    assert_eq!(rig.next_message("1").await, replies::gateway_listens_again(listen));
    rig.stop_and_start_again().await;
    rig.ask("1", "hello again").await;
    assert_eq!(rig.unread("1"), [""; 0]);
    rig.finish().await;
}
