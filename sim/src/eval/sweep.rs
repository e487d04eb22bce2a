//! One number of Covey's policy, tried at several values: how its defaults were found, for anyone to repeat.
//!
//! Not here: what the numbers do (`covey_gateway_plugin::policy`).

use std::str::FromStr;

use clap::ValueEnum;
use covey_gateway_plugin::policy::Tuning;

use super::arms::Arm;

/// A number of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Knob {
    /// Holders compared
    Holders,
    /// Others sampled
    Samples,
    /// Share of the prompt that makes a holder useful
    UsefulShare,
    /// What an uncached token of the prompt weighs against a queued one
    UncachedWeight,
    /// Tokens that a running request weighs
    RequestTokens,
    /// Share of a prompt that its home is hoped to hold for each share of requests that is not seen, by gateways that hear nobody
    Hope,
}

impl Knob {
    /// The arm in which it matters.
    #[must_use]
    pub const fn arm(self) -> Arm {
        match self {
            Self::Holders | Self::Samples | Self::UsefulShare | Self::UncachedWeight | Self::RequestTokens => {
                Arm::Covey
            }
            Self::Hope => Arm::CoveyIsolated,
        }
    }

    /// The policy's numbers with this one changed.
    #[must_use]
    pub fn tuned(self, value: f64) -> Tuning {
        let mut tuning = Tuning::default();
        match self {
            Self::Holders => tuning.holders = value as usize,
            Self::Samples => tuning.samples = value as usize,
            Self::UsefulShare => tuning.useful_share = value,
            Self::UncachedWeight => tuning.uncached_weight = value,
            Self::RequestTokens => tuning.request_tokens = value as u64,
            Self::Hope => tuning.hope = value,
        }
        tuning
    }
}

/// A number and the values to try: `samples=1,2,4`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Which.
    pub knob: Knob,
    /// The values.
    pub values: Vec<f64>,
}

impl Sweep {
    /// What the runs at a value are called.
    #[must_use]
    pub fn name(&self, value: f64) -> String {
        let knob = self.knob.to_possible_value().map(|knob| knob.get_name().to_owned()).unwrap_or_default();
        format!("{knob}={value}")
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (knob, values) = text.split_once('=').ok_or("it is written NAME=VALUE,VALUE,…")?;
        let names = || Knob::value_variants().iter().filter_map(Knob::to_possible_value);
        let knob = Knob::from_str(knob, false).map_err(|_| {
            let names: Vec<String> = names().map(|known| known.get_name().to_owned()).collect();
            format!("no number is called {knob:?}; choose one of: {}", names.join(", "))
        })?;
        let (min, max) = match knob {
            Knob::UsefulShare => (0.0, 1.0),
            Knob::Hope | Knob::UncachedWeight => (0.0, 64.0),
            Knob::Holders => (0.0, 64.0),
            // Without a sample a prompt that nobody holds could go nowhere.
            Knob::Samples => (1.0, 64.0),
            Knob::RequestTokens => (0.0, 1e6),
        };
        let parse = |value: &str| {
            let number = value.trim().parse::<f64>().ok().filter(|number| (min..=max).contains(number));
            number.ok_or_else(|| format!("{value:?} is no number from {min} to {max}"))
        };
        let values = values.split(',').map(parse).collect::<Result<_, _>>()?;
        Ok(Self { knob, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_names_a_number_and_its_values_or_says_what_is_wrong() {
        let sweep: Sweep = "useful-share=0,0.05".parse().expect("it is good");
        assert_eq!(
            (sweep.knob, &*sweep.values, sweep.name(0.05)),
            (Knob::UsefulShare, &[0.0, 0.05][..], "useful-share=0.05".into())
        );
        assert_eq!(Knob::Samples.tuned(4.0), Tuning { samples: 4, ..Tuning::default() });
        let wrong = |text: &str| text.parse::<Sweep>().expect_err("it is wrong");
        assert!(wrong("samples").contains("NAME=VALUE"));
        assert!(wrong("sample=1").contains("holders, samples, useful-share, uncached-weight, request-tokens, hope"));
        assert!(
            wrong("useful-share=2").contains("from 0 to 1")
                && wrong("samples=0").contains("from 1")
                && wrong("samples=").contains("\"\"")
        );
    }
}
