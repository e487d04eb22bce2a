//! A Grafana dashboard as JSON: panels of a few kinds, laid out in rows from left to right.
//!
//! Not here: which panels there are (`panels`).

use serde_json::{Value, json};

/// Grid columns of a dashboard.
const COLUMNS: u64 = 24;

/// One query of a panel: (PromQL, legend).
pub(crate) type Query<'a> = (&'a str, &'a str);

/// A panel before it has a place.
pub(crate) struct Panel {
    kind: &'static str,
    title: &'static str,
    about: &'static str,
    width: u64,
    height: u64,
    targets: Vec<Value>,
    /// What belongs under `fieldConfig.defaults`.
    field: Value,
    options: Value,
    transformations: Value,
}

fn target((expr, legend): &Query<'_>, at: usize, format: &str, instant: bool) -> Value {
    let letter = char::from(b'A' + u8::try_from(at).expect("a panel has few queries"));
    let expr = expr.split_whitespace().collect::<Vec<_>>().join(" ");
    json!({
        "refId": letter.to_string(), "expr": expr, "legendFormat": legend, "format": format, "instant": instant,
        "range": !instant, "datasource": datasource(),
    })
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

impl Panel {
    fn new(kind: &'static str, title: &'static str, queries: &[Query<'_>], format: &str, instant: bool) -> Self {
        let targets = queries.iter().enumerate().map(|(at, query)| target(query, at, format, instant)).collect();
        let (field, options, transformations) = (json!({}), json!({}), json!([]));
        Self { kind, title, about: "", width: 8, height: 8, targets, field, options, transformations }
    }

    /// Lines over time.
    pub(crate) fn lines(title: &'static str, unit: &str, queries: &[Query<'_>]) -> Self {
        let mut panel = Self::new("timeseries", title, queries, "time_series", false);
        panel.field =
            json!({"unit": unit, "min": 0, "custom": {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never"}});
        panel.options = json!({
            "legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"},
        });
        panel
    }

    /// Lines over time, one on top of the other.
    pub(crate) fn stacked(title: &'static str, unit: &str, queries: &[Query<'_>]) -> Self {
        let mut panel = Self::lines(title, unit, queries);
        panel.field["custom"]["stacking"] = json!({"mode": "normal"});
        panel.field["custom"]["fillOpacity"] = json!(40);
        panel
    }

    /// One number now, coloured from `bad` on (below `bad` when `bad` is less than `good`).
    pub(crate) fn number(title: &'static str, unit: &str, query: &str, good: f64, bad: f64) -> Self {
        let mut panel = Self::new("stat", title, &[(query, "")], "time_series", true);
        let steps = if good < bad {
            json!([{"color": "green", "value": null}, {"color": "red", "value": bad}])
        } else {
            json!([{"color": "red", "value": null}, {"color": "green", "value": good}])
        };
        panel.field = json!({
            "unit": unit, "noValue": "unknown", "color": {"mode": "thresholds"},
            "thresholds": {"mode": "absolute", "steps": steps},
        });
        panel.options =
            json!({"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}});
        panel.sized(4, 4)
    }

    /// A lane a series, coloured by what it is: (value, word, colour).
    pub(crate) fn lanes(title: &'static str, query: Query<'_>, words: &[(u64, &str, &str)]) -> Self {
        let mut panel = Self::new("state-timeline", title, &[query], "time_series", false);
        let mapped: serde_json::Map<String, Value> = words
            .iter()
            .map(|(value, word, colour)| (value.to_string(), json!({"text": word, "color": colour, "index": value})))
            .collect();
        panel.field = json!({
            "mappings": [{"type": "value", "options": mapped}], "custom": {"fillOpacity": 80, "lineWidth": 0},
        });
        panel.options = json!({"showValue": "auto", "mergeValues": true, "rowHeight": 0.9});
        panel.sized(24, 7)
    }

    /// A histogram's buckets over time.
    pub(crate) fn heat(title: &'static str, query: &str) -> Self {
        let mut panel = Self::new("heatmap", title, &[(query, "{{le}}")], "heatmap", false);
        panel.options = json!({
            "calculate": false, "color": {"mode": "scheme", "scheme": "Viridis", "scale": "exponential", "exponent": 0.5},
            "yAxis": {"unit": "s"}, "cellGap": 0, "tooltip": {"mode": "single", "yHistogram": true},
        });
        panel.sized(12, 8)
    }

    /// What each gateway (row) sees of each peer (column), now.
    pub(crate) fn matrix(title: &'static str, unit: &str, query: &str, bad: f64) -> Self {
        let mut panel = Self::new("table", title, &[(query, "")], "table", true);
        let steps = json!([{"color": "green", "value": null}, {"color": "red", "value": bad}]);
        panel.field = json!({
            "unit": unit, "noValue": "–", "custom": {"cellOptions": {"type": "color-background"}},
            "color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps},
        });
        let matrix =
            json!({"rowField": "instance", "columnField": "peer", "valueField": "Value", "emptyValue": "null"});
        panel.transformations = json!([{"id": "groupingToMatrix", "options": matrix}]);
        panel.sized(12, 8)
    }

    /// Says more than the title.
    pub(crate) const fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }

    /// In grid units: a dashboard has 24 columns.
    pub(crate) const fn sized(mut self, width: u64, height: u64) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// No line starts at zero by force: values may be negative.
    pub(crate) fn signed(mut self) -> Self {
        self.field["min"] = Value::Null;
        self
    }

    fn at(&self, id: u64, x: u64, y: u64) -> Value {
        json!({
            "id": id, "type": self.kind, "title": self.title, "description": self.about, "datasource": datasource(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height}, "targets": self.targets,
            "fieldConfig": {"defaults": self.field, "overrides": []}, "options": self.options,
            "transformations": self.transformations,
        })
    }
}

/// Panels under a heading.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) panels: Vec<Panel>,
}

/// Lays rows out from top to bottom; a panel that does not fit beside the others begins a new line.
fn laid_out(rows: &[Row]) -> Vec<Value> {
    let (mut out, mut y, mut id) = (Vec::new(), 0, 0);
    for row in rows {
        id += 1;
        out.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
        }));
        let (mut x, mut tallest) = (0, 0);
        y += 1;
        for panel in &row.panels {
            if x + panel.width > COLUMNS {
                (x, y, tallest) = (0, y + tallest, 0);
            }
            id += 1;
            out.push(panel.at(id, x, y));
            (x, tallest) = (x + panel.width, tallest.max(panel.height));
        }
        y += tallest;
    }
    out
}

fn variable(name: &str, label: &str, query: &str, many: bool) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": datasource(), "refresh": 2, "sort": 1,
        "query": {"query": query, "refId": name}, "definition": query, "multi": many, "includeAll": many,
        "allValue": if many { json!(".*") } else { Value::Null },
        "current": if many { json!({"text": ["All"], "value": ["$__all"]}) } else { json!({}) },
    })
}

/// The whole dashboard.
pub(crate) fn dashboard(rows: &[Row]) -> Value {
    let instances = "label_values(covey_gateway_build_info{job=\"$job\"}, instance)";
    json!({
        "uid": "covey-mesh", "title": "Covey: coverage mesh", "tags": ["covey"], "schemaVersion": 39, "version": 1,
        "editable": true, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "graphTooltip": 1, "links": [],
        "templating": {"list": [
            {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            variable("job", "Mesh", "label_values(covey_gateway_build_info, job)", false),
            variable("instance", "Gateway", instances, true),
        ]},
        "annotations": {"list": [{
            "name": "Alerts", "enable": true, "iconColor": "red", "datasource": datasource(),
            "expr": "ALERTS{job=\"$job\", alertstate=\"firing\"}", "titleFormat": "{{alertname}}",
            "textFormat": "{{instance}}", "step": "15s",
        }]},
        "panels": laid_out(rows),
    })
}
