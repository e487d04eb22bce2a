//! The gateway end to end, against scripted workers on loopback: one binary, tests named after hazards.

mod binary;
mod dashboard;
mod decisions;
mod doctor;
mod fake;
mod feeds;
mod gateway;
mod hooks;
mod identical;
mod mesh;
mod operator;
mod operator_lied_to;
mod ops;
mod process;
mod proxying;
mod ranks;
mod record;
mod refusals;
mod routing;
mod streaming;
mod tokens;
mod workers;
mod wrong_answers;
