package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/rules/alerts"
)

// The version of the format, of Grafana 9.4. A newer Grafana migrates it.
const schemaVersion = 38

// pages is where the links to the runbook begin: a hidden variable, so that a copy of the pages elsewhere needs one change.
const pages = "https://github.com/troupe-run/troupe/blob/main"

// object is a JSON object. Its keys are sorted when it is rendered, so that the file changes with the table alone.
type object = map[string]any

// dataSource is the reader's choice of a Prometheus.
var dataSource = object{"type": "prometheus", "uid": "${datasource}"}

// Grafana renders a dashboard as a file for Grafana.
func Grafana(d *Dashboard) ([]byte, error) {
	page := object{
		"uid": d.UID, "title": d.Title, "description": d.Means, "tags": []string{"troupe"}, "schemaVersion": schemaVersion,
		"editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser", "time": object{"from": "now-1h", "to": "now"},
		"templating": object{"list": d.variables()}, "annotations": object{"list": []object{firing()}}, "panels": d.panels(),
		"links": []object{link(object{"type": "dashboards", "title": "Troupe", "tags": []string{"troupe"}, "includeVars": true, "keepTime": true})},
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(page); err != nil {
		return nil, fmt.Errorf("render dashboard %s: %w", d.UID, err)
	}
	return b.Bytes(), nil
}

// Choice is what a reader can pick from: the values of a label.
type Choice struct {
	Name, Label, Metric string
	// Any is a pattern that stands for all values, also for those that have no series now. Empty: Grafana lists them. The jobs are
	// listed, because other jobs have the metrics of processes too.
	Any string
}

// Choices are the dashboard's choices beside that of a data source.
func (d *Dashboard) Choices() []Choice {
	all := []Choice{
		{"job", "Job", "troupe_store_up", ""},
		{"instance", "Node", `troupe_store_up{job=~"$job"}`, ".*"},
	}
	if d.Pools {
		all = append(all, Choice{"pool", "Pool", `troupe_pool_broken{job=~"$job"}`, ".*"})
	}
	return all
}

func (d *Dashboard) variables() []object {
	all := []object{{
		"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1, "hide": 0,
		"multi": false, "includeAll": false, "regex": "", "options": []object{}, "current": object{},
	}}
	for _, c := range d.Choices() {
		query := fmt.Sprintf("label_values(%s, %s)", c.Metric, c.Name)
		v := object{
			"type": "query", "name": c.Name, "label": c.Label, "datasource": dataSource, "definition": query, "refresh": 2, "hide": 0,
			"query": object{"query": query, "refId": "StandardVariableQuery"}, "multi": true, "includeAll": true, "regex": "", "sort": 1,
			"options": []object{}, "current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		}
		if c.Any != "" {
			v["allValue"] = c.Any
		}
		all = append(all, v)
	}
	return append(all, object{"type": "constant", "name": "pages", "label": "Where docs/ is", "query": pages, "hide": 2, "skipUrlSync": true})
}

// Firing is the query of the marks that all panels show: the alerts of rules/alerts while they fire.
func Firing() string {
	var names []string
	for _, r := range alerts.Rules() {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return fmt.Sprintf(`ALERTS{alertstate="firing",alertname=~"%s"}`, strings.Join(names, "|"))
}

func firing() object {
	return object{
		"name": "Alerts that fire", "datasource": dataSource, "enable": true, "iconColor": "red", "expr": Firing(), "step": "60s",
		"titleFormat": "{{alertname}}", "textFormat": "{{severity}} {{pool}} {{instance}}", "tagKeys": "",
	}
}

func (d *Dashboard) panels() []object {
	var all []object
	y := 0
	for i := range d.Rows {
		r := &d.Rows[i]
		head, places, next := layout(r, y)
		y = next
		all = append(all, object{"id": len(all) + 1, "type": "row", "title": r.Title, "collapsed": false, "gridPos": head, "panels": []object{}})
		for j := range r.Panels {
			all = append(all, d.panel(&r.Panels[j], len(all)+1, places[j]))
		}
	}
	return all
}

func (d *Dashboard) panel(p *Panel, id int, at place) object {
	var targets []object
	for i, q := range d.Drawn(p) {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": dataSource, "editorMode": "code", "expr": q.Expr, "legendFormat": q.Legend,
			"range": p.Kind == Lines, "instant": p.Kind == Number,
		})
	}
	return object{
		"id": id, "type": p.Kind, "title": p.Title, "description": p.description(), "datasource": dataSource, "gridPos": at,
		"targets": targets, "options": p.Kind.options(), "links": p.links(),
		"fieldConfig": object{"defaults": p.defaults(), "overrides": []object{}},
	}
}

func (k Kind) options() object {
	if k == Number {
		return object{
			"colorMode": "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	}
	return object{
		"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}

func (p *Panel) defaults() object {
	defaults := object{"unit": p.Unit, "min": 0, "color": object{"mode": "palette-classic"}, "thresholds": object{"mode": "absolute", "steps": p.steps()}}
	if p.Absent != "" {
		defaults["noValue"] = p.Absent
	}
	if p.Unit == YesNo {
		defaults["max"] = 1
	}
	if p.Kind == Number {
		return defaults
	}
	custom := object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "auto", "spanNulls": false,
		"stacking": object{"mode": "none", "group": "A"}, "thresholdsStyle": object{"mode": "off"},
	}
	if p.Stacked {
		custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
	}
	if p.Alert != "" {
		custom["thresholdsStyle"] = object{"mode": "line"}
	}
	if p.Unit == YesNo {
		custom["lineInterpolation"] = "stepAfter"
	}
	defaults["custom"] = custom
	return defaults
}

// step is a colour from a value on; nil: from the lowest.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

var colors = map[alerts.Severity]string{alerts.Warning: "orange", alerts.Critical: "red"}

// steps are the limits of the panel's alert, from the lowest. Of two rules with one limit, the more severe one colours it.
func (p *Panel) steps() []step {
	at := map[float64]string{}
	base := "green"
	for _, r := range p.rules() {
		limit, color := r.Limit, colors[r.Severity]
		if r.Bad == alerts.Is && limit == 0 { // bad below 1
			base, limit, color = color, 1, "green"
		}
		if at[limit] != colors[alerts.Critical] {
			at[limit] = color
		}
	}
	all := []step{{Color: base}}
	for limit, color := range at {
		all = append(all, step{color, &limit})
	}
	slices.SortFunc(all[1:], func(a, b step) int {
		if *a.Value < *b.Value {
			return -1
		}
		return 1
	})
	return all
}

// description is the panel's text, with the limits of its alert.
func (p *Panel) description() string {
	text := p.Normal
	for _, r := range p.rules() {
		is := "above "
		if r.Bad == alerts.Is {
			is = "at "
		}
		text += fmt.Sprintf("\n\nAlert `%s`: %s %s%s", r.Name, r.Severity, is, strconv.FormatFloat(r.Limit, 'f', -1, 64))
		if r.For > 0 {
			text += " for " + alerts.Duration(r.For)
		}
		text += "."
	}
	return text
}

// links lead to what the runbook says of the panel's alert.
func (p *Panel) links() []object {
	rules := p.rules()
	if len(rules) == 0 {
		return []object{}
	}
	return []object{link(object{"type": "link", "title": "Runbook: " + p.Alert, "url": "${pages:raw}/" + rules[0].Runbook(), "targetBlank": true})}
}

// link is a link with the fields that Grafana's schema demands of each.
func link(of object) object {
	all := object{
		"icon": "external link", "tooltip": "", "url": "", "tags": []string{}, "asDropdown": false, "targetBlank": false, "includeVars": false, "keepTime": false,
	}
	maps.Copy(all, of)
	return all
}
