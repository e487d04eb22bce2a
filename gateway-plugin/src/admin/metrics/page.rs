//! A page of metrics being written, one metric at a time: counters, gauges, families of one closed label, histograms.
//!
//! Not here: which metrics there are (the files beside this one), their names (`names`).

use std::fmt::Error;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::admin::names::Named;
use crate::server::Latency;

/// A page being written.
pub(super) struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Page<'a> {
    pub(super) const fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self { encoder }
    }

    pub(super) fn counter(&mut self, named: Named, value: u64) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// A counter of something that is no whole number.
    pub(super) fn counter_f64(&mut self, named: Named, value: f64) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    pub(super) fn counters<'v>(
        &mut self,
        named: Named,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value, count) in values {
            metric.encode_family(&[(label, value)])?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }

    /// A family of two labels.
    pub(super) fn counters_by_two<'v>(
        &mut self,
        named: Named,
        labels: [&str; 2],
        values: impl IntoIterator<Item = (&'v str, &'v str, u64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (first, second, count) in values {
            let labels = [(labels[0], first), (labels[1], second)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }

    pub(super) fn gauge(&mut self, named: Named, value: f64) -> Result<(), Error> {
        let (name, help) = named;
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    pub(super) fn gauges<'v>(
        &mut self,
        named: Named,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, f64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (value, number) in values {
            metric.encode_family(&[(label, value)])?.encode_gauge(&number)?;
        }
        Ok(())
    }

    /// A family of two labels.
    pub(super) fn gauges_by_two<'v>(
        &mut self,
        named: Named,
        labels: [&str; 2],
        values: impl IntoIterator<Item = (&'v str, &'v str, f64)>,
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (first, second, number) in values {
            metric.encode_family(&[(labels[0], first), (labels[1], second)])?.encode_gauge(&number)?;
        }
        Ok(())
    }

    /// One gauge a word: 1 for the one that is so, 0 for the others.
    pub(super) fn one_of<const N: usize>(
        &mut self,
        named: Named,
        label: &str,
        words: [(&str, bool); N],
    ) -> Result<(), Error> {
        self.gauges(named, label, words.map(|(word, is_so)| (word, flag(is_so))))
    }

    pub(super) fn latency<const N: usize>(
        &mut self,
        named: Named,
        latency: &Latency,
        upper_us: [u64; N],
    ) -> Result<(), Error> {
        let (count, sum, []) = latency.quantiles([]);
        let counts = latency.buckets(upper_us);
        let mut buckets: Vec<(f64, u64)> = upper_us.map(seconds).into_iter().zip(counts).collect();
        buckets.push((f64::INFINITY, count - counts.iter().sum::<u64>().min(count)));
        self.histogram(named, seconds(sum), count, &buckets)
    }

    /// A histogram of (upper bound, values in that bucket alone).
    pub(super) fn histogram(
        &mut self,
        named: Named,
        sum: f64,
        count: u64,
        buckets: &[(f64, u64)],
    ) -> Result<(), Error> {
        let (name, help) = named;
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}

pub(super) fn flag(set: bool) -> f64 {
    f64::from(u8::from(set))
}

/// Seconds of microseconds.
pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
