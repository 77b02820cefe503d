// Package dashboards has what operators see of a node's metrics in Grafana: three dashboards of panels, each with its queries in PromQL,
// its unit and what is normal. The files for Grafana are rendered from this table. A panel that shows the value of an alert takes its
// query and its limits from rules/alerts.
//
// It is pure.
package dashboards
