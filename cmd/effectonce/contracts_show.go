package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

type contractsShowCommand struct {
	Name string `arg:"" help:"The contract's name, or a file."`
}

// Run shows a contract.
func (s *contractsShowCommand) Run(c *terminal) error {
	found, err := findContract(c, s.Name)
	if err != nil {
		return err
	}
	operations := []contractOperation{}
	for _, name := range operationNames(found) {
		operations = append(operations, describedOperation(found.Operations[name]))
	}
	if c.json {
		return c.show(map[string]any{
			"name": found.Name, "title": found.Title, "file": found.File, "version": found.Version, "hosts": found.Hosts, "scope": found.Scope,
			"signed": found.Signed.Kind, "otherwise": otherwise(found), "sources": sourcesOf(found), "operations": operations,
		})
	}
	c.say("%s  %s", printed(found.Name), printed(found.Title))
	c.say("version %s, from %s", found.Version, printed(found.File))
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, printed(text))
		}
	}
	line("hosts", strings.Join(found.Hosts, ", "))
	line("scope", scopeList(found.Scope))
	line("signed", found.Signed.Kind)
	line("otherwise", otherwise(found))
	for _, o := range operations {
		fmt.Fprintf(w, "\n%s\t%s\n", printed(o.Name), printed(o.Request))
		for _, condition := range o.Where {
			line("where", condition)
		}
		line("effect", o.Effect)
		line("key", strings.Join(o.Key, "; "))
		line("form", o.KeyForm)
		line("retention", o.Retention)
		line("resend", o.Resend)
		line("stamp", o.Stamp)
		for _, l := range o.LookUps {
			line("look-up", l)
		}
		line("replays", o.Replays)
		line("undone by", o.Compensation)
		for _, v := range o.Verdicts {
			line("answer", v)
		}
		line("given by you", strings.Join(o.Given, ", "))
	}
	fmt.Fprintln(w, "\nsources\t")
	for _, s := range sourcesOf(found) {
		line(s["name"], s["grade"]+", "+s["checked"]+", "+s["url"])
	}
	return w.Flush()
}

func scopeList[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}

func otherwise(c *contract.Contract) string {
	reads := "no method is a read by itself"
	if len(c.Otherwise.Reads) > 0 {
		reads = strings.Join(c.Otherwise.Reads, ", ") + " are reads"
	}
	if c.Otherwise.Writes != "" {
		return reads + "; every other write is " + c.Otherwise.Writes
	}
	return reads + "; what nobody described does not pass"
}

func sourcesOf(c *contract.Contract) []map[string]string {
	list := []map[string]string{}
	for name, s := range c.Sources {
		list = append(list, map[string]string{"name": name, "url": s.URL, "checked": s.Checked, "grade": string(s.Grade), "says": s.Says})
	}
	slices.SortFunc(list, func(a, b map[string]string) int { return strings.Compare(a["name"], b["name"]) })
	return list
}

func describedOperation(o *contract.Operation) contractOperation {
	s := contractOperation{
		Name: o.Name, Request: o.Method + " " + firstOf(o.Path, "(the path is given)"), Effect: string(o.Effect), Given: o.Given, Examples: len(o.Examples),
		Resend: resendOf(o), Evidence: map[string]string{},
	}
	evidence := func(claim string, by contract.Source) {
		if by.URL != "" {
			s.Evidence[claim] = fmt.Sprintf("%s, %s, %s", by.Grade, by.Checked, by.URL)
		}
	}
	for _, w := range o.Where {
		condition := strings.TrimSpace(string(w.In)+" "+w.Name) + " is " + strings.Join(w.Values, " or ")
		if w.Absent {
			condition = strings.TrimSpace(string(w.In)+" "+w.Name) + " is not there"
		} else if len(w.Values) == 0 {
			condition = string(w.In) + " is " + w.Name
		}
		if runes := []rune(condition); len(runes) > 160 {
			condition = string(runes[:157]) + "..."
		}
		s.Where = append(s.Where, condition)
	}
	if o.Key.Place != "" {
		s.Key = append(s.Key, contract.Spot{Place: o.Key.Place, Name: o.Key.Name, Argument: o.Key.Argument, At: o.Key.At}.String())
		for _, also := range o.Key.Also {
			s.Key = append(s.Key, also.String())
		}
		for _, with := range o.Key.Companions {
			value := fmt.Sprint(with.Value)
			if with.FirstSent != "" {
				value = "the time of the first send (" + with.FirstSent + ")"
			}
			s.Key = append(s.Key, "with "+with.Spot.String()+" = "+value)
		}
		s.KeyForm = firstOf(o.Key.Form.Encoding, "uuid")
		if o.Key.Form.LengthMax > 0 {
			s.KeyForm += fmt.Sprintf(", at most %d characters", o.Key.Form.LengthMax)
		}
		s.Retention = retentionOf(o.Retention)
		evidence("key", o.Key.Source)
		evidence("retention", o.Retention.Source)
	}
	if o.Stamp.Set() {
		s.Stamp = fmt.Sprintf("%s %s, shown at %s", o.Stamp.Place, o.Stamp.Field, o.Stamp.Path)
		evidence("stamp", o.Stamp.Source)
	}
	for i, l := range o.LookUps {
		s.LookUps = append(s.LookUps, lookUpOf(l, i == 0))
		evidence("look_up", l.Source)
	}
	if o.Replays.Success != "" || o.Replays.Errors != "" {
		s.Replays = strings.Trim(o.Replays.Success+"; errors "+firstOf(o.Replays.Errors, "unknown"), "; ")
	}
	if o.Compensation != nil {
		s.Compensation = o.Compensation.Operation + ", by " + o.Compensation.By
	}
	for _, r := range o.Verdicts {
		s.Verdicts = append(s.Verdicts, ruleOf(r))
	}
	evidence("effect", o.EffectSource)
	return s
}

func retentionOf(r contract.Retention) string {
	words := "unknown"
	switch {
	case r.Kind != "" && r.Kind != contract.RetentionAtLeast:
		words = string(r.Kind)
	case r.AtLeast > 0:
		words = "at least " + r.AtLeast.String()
	}
	if r.Starts != "" {
		words += ", from " + r.Starts
	}
	if r.After != "" {
		words += "; afterwards " + r.After
	}
	if r.BodyBytesMax > 0 {
		words += fmt.Sprintf("; up to %d bytes", r.BodyBytesMax)
	}
	if !r.Source.Good() && words != "unknown" {
		words += " (without a source: counts as unknown)"
	}
	return words
}

// resendOf says when the same key justifies another send.
func resendOf(o *contract.Operation) string {
	switch {
	case o.Effect == contract.EffectRead:
		return "read: passes"
	case o.Effect == contract.EffectConvergent:
		return "convergent: applied again"
	case o.Effect == contract.EffectKeyed && o.Key.Known() && o.Retention.Known():
		if o.Retention.Forever {
			return "under the key, as long as the resource exists"
		}
		return "under the key, for " + o.Retention.AtLeast.String()
	case o.Effect == contract.EffectKeyed && slices.Contains(o.Given, "retention"):
		return "under the key, with a retention from you"
	}
	return "never"
}

func lookUpOf(l *contract.LookUp, first bool) string {
	words := firstOf(l.Name, l.Method+" "+l.Path) + ", by " + string(l.By)
	switch {
	case !first, !l.Conclusive():
		return words + "; finds, and concludes no absence"
	case l.Lag.AtMost == 0:
		return words + "; absence counts at once"
	}
	return words + fmt.Sprintf("; absence counts after %s", l.Lag.AtMost)
}

func ruleOf(r contract.Rule) string {
	var when []string
	for _, s := range r.When.Status {
		when = append(when, s.String())
	}
	words := strings.Join(when, ",")
	for _, name := range sortedKeys(r.When.Header) {
		words += " " + name + ": " + r.When.Header[name]
	}
	for _, path := range sortedKeys(r.When.Body) {
		words += fmt.Sprintf(" %s=%s", path, short(strings.Join(r.When.Body[path], "|"), 60))
	}
	for _, path := range r.When.Missing {
		words += fmt.Sprintf(" without %s", path)
	}
	if len(r.When.Text) > 0 {
		words += " with " + short(strings.Join(r.When.Text, "|"), 60)
	}
	if r.When.Attempt != contract.OnAny {
		words += " on a " + string(r.When.Attempt)
	}
	verdict := string(r.Verdict)
	if r.Means != "" {
		verdict = string(r.Means) + " (" + verdict + ")"
	}
	if r.Authoritative {
		verdict += ", authoritative"
	}
	if r.StoredError {
		verdict += ", stored"
	}
	words += " -> " + verdict
	if r.Reason != "" && r.Verdict != effectonce.VerdictSucceeded {
		words += ": " + r.Reason
	}
	return words
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
