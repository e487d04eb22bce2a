//! The `covey` binary: `covey gateway`, and the tools of an operator: `status`, `diff`, `record`, `top`,
//! `doctor`, `explain`.
//!
//! Exit codes of the gateway: 0 stopped as asked, 1 it could not run (a port is taken), 2 its configuration is wrong.
//! Those of status are its verdict's, those of diff are in its help.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use covey_gateway_plugin::admin::{self, Verdict};
use covey_gateway_plugin::cli::args::{
    Cli, Command, DiffArgs, DoctorArgs, ExplainArgs, GatewayArgs, RecordArgs, StatusArgs, TopArgs,
};
use covey_gateway_plugin::cli::{Config, LogFormat};
#[cfg(feature = "otel")]
use covey_gateway_plugin::otel;
use covey_gateway_plugin::server;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

const _: () = assert!(!covey_crdt::plant::COMPILED_IN, "a gateway is never built with planted bugs (feature `plants`)");

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    match cli.command {
        Command::Gateway(args) => gateway(&args),
        Command::Status(args) => status(&args),
        Command::Diff(args) => diff(&args),
        Command::Record(args) => record(&args),
        Command::Top(args) => top(&args),
        Command::Doctor(args) => doctor(&args),
        Command::Explain(args) => explain(&args),
    }
}

/// Help, or what is wrong with the command line. Where 2 is a verdict that somebody may be woken for, a misspelt flag
/// must not give it: nothing was asked, so nothing is known.
fn misused(error: &clap::Error) -> ExitCode {
    // A closed pipe is the reader's choice.
    let _ = error.print();
    let judges = std::env::args().nth(1).is_some_and(|command| command == "status" || command == "diff");
    match (error.use_stderr(), judges) {
        (false, _) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(Verdict::Unknown.exit_code()),
        (true, false) => ExitCode::from(2),
    }
}

fn gateway(args: &GatewayArgs) -> ExitCode {
    let config = match Config::parse(args) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("covey gateway: {error}");
            return ExitCode::from(2);
        }
    };
    let _listening = match listen_in(&config) {
        Ok(listening) => listening,
        Err(error) => {
            eprintln!("covey gateway: {error}");
            return ExitCode::from(1);
        }
    };
    let outcome = tokio::runtime::Runtime::new()
        .map_err(server::RunError::System)
        .and_then(|runtime| runtime.block_on(server::run(config, |banner| print(&format!("{banner}\n")))));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("covey gateway: {error}");
            ExitCode::from(1)
        }
    }
}

/// A part of what the process tells: lines on standard error, traces.
type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Log lines go to standard error; a span is a line when it ends, for whoever asks for spans (`--log`).
fn lines(config: &Config) -> Listener {
    let filter = EnvFilter::try_new(&config.log).expect("the configuration holds a filter that parses");
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_span_events(FmtSpan::CLOSE);
    match config.log_format {
        LogFormat::Text => {
            lines.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_filter(filter).boxed()
        }
        LogFormat::Json => lines.json().with_filter(filter).boxed(),
    }
}

/// What keeps listeners going until the process ends.
#[derive(Default)]
struct Listening {
    #[cfg(feature = "otel")]
    _exporting: Option<otel::Exporting>,
}

/// Sets up lines and, with an endpoint, traces.
#[cfg(feature = "otel")]
fn listen_in(config: &Config) -> Result<Listening, otel::StartError> {
    let mut listeners: Vec<Listener> = vec![lines(config)];
    let mut listening = Listening::default();
    if let Some(traces) = &config.traces {
        let (layer, exporting) = otel::start(config, traces)?;
        listeners.push(layer.boxed());
        listening._exporting = Some(exporting);
    }
    tracing_subscriber::registry().with(listeners).init();
    Ok(listening)
}

#[cfg(not(feature = "otel"))]
fn listen_in(config: &Config) -> Result<Listening, std::convert::Infallible> {
    tracing_subscriber::registry().with(lines(config)).init();
    Ok(Listening::default())
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| format!("the system refused a runtime: {error}"))
}

fn doctor(args: &DoctorArgs) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("covey doctor: {error}");
            return ExitCode::from(Verdict::Unknown.exit_code());
        }
    };
    match runtime.block_on(admin::doctor::doctor(args)) {
        Ok((is_exact, text)) => {
            print(&text);
            ExitCode::from(u8::from(!is_exact))
        }
        Err(error) => {
            eprintln!("covey doctor: {error}");
            ExitCode::from(Verdict::Unknown.exit_code())
        }
    }
}

fn explain(args: &ExplainArgs) -> ExitCode {
    let told = runtime().and_then(|runtime| runtime.block_on(admin::explain::explain(args)).map_err(|e| e.to_string()));
    match told {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", serde_json::json!({"error": error})));
            }
            eprintln!("covey explain: {error}");
            ExitCode::from(admin::explain::EXIT_UNKNOWN)
        }
    }
}

fn diff(args: &DiffArgs) -> ExitCode {
    let outcome = runtime().and_then(|runtime| runtime.block_on(admin::diff::diff(args)).map_err(|e| e.to_string()));
    match outcome {
        Ok((report, text)) => {
            print(&text);
            ExitCode::from(report.exit_code())
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", serde_json::json!({"error": error})));
            }
            eprintln!("covey diff: {error}");
            ExitCode::from(admin::diff::EXIT_UNKNOWN)
        }
    }
}

fn record(args: &RecordArgs) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("covey record: {error}");
            return ExitCode::from(1);
        }
    };
    match runtime.block_on(admin::record(args, |line| eprintln!("covey record: {line}"))) {
        Ok(recorded) => {
            print(&format!("{recorded}\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("covey record: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn top(args: &TopArgs) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("covey top: {error}");
            return ExitCode::from(1);
        }
    };
    let shown = runtime.block_on(async {
        if args.once { admin::once(args).await.map(|text| print(&text)) } else { admin::top(args).await }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("covey top: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn status(args: &StatusArgs) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("covey status: {error}");
            return ExitCode::from(Verdict::Unknown.exit_code());
        }
    };
    match runtime.block_on(admin::status(args)) {
        Ok((verdict, text)) => {
            print(&text);
            ExitCode::from(verdict.exit_code())
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", serde_json::json!({"verdict": "unknown", "error": error.to_string()})));
            } else {
                print("unknown\n");
            }
            eprintln!("covey status: {error}");
            ExitCode::from(Verdict::Unknown.exit_code())
        }
    }
}

/// Writes to standard output; a closed pipe is the reader's choice and no error.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
