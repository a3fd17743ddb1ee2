package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fault is a rule taken out of the production guard: in File, Old becomes New. Old must stand there exactly once, so that a fault
// whose place has moved is noticed.
type fault struct {
	name     string
	file     string
	old, new string
	// also is a second place.
	also place
	// rules are those of which the simulator must find one broken.
	rules []string
	// kinds are the providers to which it matters most; nil for all.
	kinds []Kind
	// seldom says that random schedules come upon it too seldom; its named schedule shows it.
	seldom bool
}

type place struct{ file, old, new string }

// releases is where several faults of limits are: when a reservation is given back (S8.3).
const releases = `t.To.State == StateFailed && t.From.State != StateFailed && !planted("limit not released on failure") ||
	len(t.To.Limits) > 0 && (planted("limit released while unknown") && t.To.State == StateUnknown || planted("limit released on abandonment") && t.To.State == StateAbandoned)`

// The faults of the schedules that broke earlier drafts, and some more. In the text that is put in, planted() reports whether
// the fault of that name is switched on; only the overlay has it.
var faults = []fault{
	{
		name: "no fence", file: "next.go",
		old:   "if op.State != StateInProgress || token != op.Token {",
		new:   `if !planted("no fence") && (op.State != StateInProgress || token != op.Token) {`,
		rules: []string{"I4"},
	},
	{
		name: "no margin", file: "terms.go",
		old:   "return t.Settle() + t.Margin }",
		new:   `if planted("no margin") { return 0 }; return t.Settle() + t.Margin }`,
		rules: []string{"I1", "I8"},
		kinds: []Kind{Keyed},
	},
	{
		name: "window counted from the last attempt", file: "next.go",
		old:   "if m.to.FirstSentAt.IsZero() {",
		new:   `if m.to.FirstSentAt.IsZero() || planted("window counted from the last attempt") {`,
		rules: []string{"I1", "I8"},
		kinds: []Kind{Keyed},
	},
	{
		name: "window counted from created_at", file: "operation.go",
		old:   "return op.FirstSent().Add(t.Retention",
		new:   `if planted("window counted from created_at") { return op.CreatedAt.Add(t.Retention - t.CallTimeout - t.WindowMargin()), false, true }; return op.FirstSent().Add(t.Retention`,
		rules: []string{"S16"},
		kinds: []Kind{Keyed},
	},
	{
		name: "resend on lease expiry", file: "guard.go",
		old: "	case op.State == StateUnknown && g.due(op), op.LeaseOver(op.AsOf):",
		new: `	case planted("resend on lease expiry") && op.LeaseOver(op.AsOf):
		watch := startWatch(g.options.Clock)
		if op, err = g.apply(ctx, op, TakenOver{Owner: g.options.Owner}, op.AsOf); err == nil {
			if op, err = g.startAttempt(ctx, op, Ruling{Line: 10}); err == nil {
				op, err = g.attempt(ctx, op, p, watch)
			}
		}
	case op.State == StateUnknown && g.due(op), op.LeaseOver(op.AsOf):`,
		rules: []string{"I1", "I8"},
	},
	{
		name: "absent trusted before the lag", file: "reconcile.go",
		old:   "!began.Before(settled.Add(t.Lag)),",
		new:   `!began.Before(settled.Add(t.Lag)) || planted("absent trusted before the lag") && !began.Before(settled),`,
		rules: []string{"I1", "I8"},
		kinds: []Kind{LookUpResend, KeyedResend},
	},
	{
		name: "absence judged by when it is used", file: "recover.go",
		old:   "r = Rule(op, f.Found, scope, op.TakenAt, op.AsOf)",
		new:   `began := op.TakenAt; if planted("absence judged by when it is used") { began = op.AsOf }; r = Rule(op, f.Found, scope, began, op.AsOf)`,
		rules: []string{"I1", "I8"},
		kinds: []Kind{LookUpResend, KeyedResend},
	},
	{
		name: "no settle time", file: "operation.go",
		old:   "return last.Add(op.Terms.CallTimeout + op.Terms.Settle())",
		new:   `if planted("no settle time") { return last.Add(op.Terms.CallTimeout) }; return last.Add(op.Terms.CallTimeout + op.Terms.Settle())`,
		rules: []string{"I1", "I3", "I8"},
	},
	{
		name: "settle time from the first attempt", file: "operation.go",
		old: `func (op Operation) LastSent() time.Time {
`,
		new: `func (op Operation) LastSent() time.Time {
	if planted("settle time from the first attempt") && !op.FirstSent().IsZero() {
		return op.FirstSent()
	}
`,
		rules: []string{"I1", "I3", "I8"},
		kinds: []Kind{LookUpResend, KeyedResend},
	},
	{
		name: "no attempt row before the send", file: "recover.go",
		old: "	return g.persist(ctx, op, cause, op.AsOf)\n}\n\n// lookUp asks",
		new: `	if planted("no attempt row before the send") {
		op.Attempt, op.Open, op.OpenedAt = op.Attempt+1, true, op.AsOf
		return op, nil
	}
	return g.persist(ctx, op, cause, op.AsOf)
}

// lookUp asks`,
		rules: []string{"S5.10"},
	},
	{
		name: "failed look-up taken for absent", file: "recover.go",
		old: "	case FoundOne, FoundMany, FoundAbsent, FoundUnavailable:\n		return f",
		new: `	case FoundOne, FoundMany, FoundAbsent, FoundUnavailable:
		if planted("failed look-up taken for absent") && f.Found == FoundUnavailable {
			f.Found = FoundAbsent
		}
		return f`,
		rules: []string{"I1", "I8"},
		kinds: []Kind{LookUpResend, KeyedResend},
	},
	{
		name: "no deadline check", file: "execute.go",
		old:   "left := op.Terms.CallTimeout - watch.elapsed()",
		new:   `left := op.Terms.CallTimeout - watch.elapsed(); if planted("no deadline check") { left = op.Terms.CallTimeout }`,
		rules: []string{"I1", "I3", "I8"},
	},
	{
		name: "cancelled taken for not sent", file: "execute.go",
		old: "return p.Call(dctx, op.call(left)).bounded()",
		new: `end := p.Call(dctx, op.call(left)).bounded()
	if planted("cancelled taken for not sent") && ctx.Err() != nil && end.Verdict == VerdictUnknown {
		return notSent("cancelled", "")
	}
	return end`,
		rules: []string{"I1", "I3", "I8"},
	},
	{
		name: "permission to resend usable twice", file: "next.go",
		old:   "m.to.Permission = nil\n	} else if c.DownstreamKey",
		new:   `if !planted("permission to resend usable twice") { m.to.Permission = nil }` + "\n	} else if c.DownstreamKey",
		rules: []string{"I1", "I8"},
		kinds: []Kind{Neither},
	},
	{
		name: "failed after unknown", file: "next.go",
		old:   "if !exposed || end.Authoritative {",
		new:   `if !exposed || end.Authoritative || planted("failed after unknown") {`,
		rules: []string{"I3"},
		kinds: []Kind{Keyed, KeyedLookUp},
	},
	{
		name: "not_sent after unknown taken to pending", file: "next.go",
		old:   "		if !exposed {\n			if m.budgetLeft() {",
		new:   `		if !exposed || planted("not_sent after unknown taken to pending") {` + "\n			if m.budgetLeft() {",
		rules: []string{"I1", "I3", "I8"},
	},
	{
		name: "in_flight taken for failed", file: "next.go",
		old:   "	case VerdictInFlight:\n",
		new:   "	case VerdictInFlight:\n" + `		if planted("in_flight taken for failed") { return m.failOrEvidence(end.Failure, ProofRejected) }` + "\n",
		rules: []string{"I3"},
		kinds: []Kind{Keyed},
	},
	{
		name: "late evidence ignored", file: "execute.go",
		old:   "if err != nil || end.Verdict != VerdictSucceeded {",
		new:   `if err != nil || end.Verdict != VerdictSucceeded || planted("late evidence ignored") {`,
		rules: []string{"S5.8"},
	},
	{
		name: "permission to resend after review", file: "reconcile.go",
		old:   "case s.Permission:",
		new:   `case s.Permission && !planted("permission to resend after review"):`,
		rules: []string{"S7.6", "I11"},
	},
	{
		name: "pending operations are left to their agents", file: "recover.go",
		old:   "case op.State == StatePending && op.Hold != HoldNone:",
		new:   `case op.State == StatePending && (op.Hold != HoldNone || planted("pending operations are left to their agents")):`,
		rules: []string{"S7.5"},
	},
	{
		name: "waiting spends attempts", file: "next.go",
		old:   "		m.to.Looks++\n",
		new:   "		m.to.Looks++\n" + `		if planted("waiting spends attempts") { m.to.Spent++ }` + "\n",
		rules: []string{"S16"},
	},
	{
		name: "in-flight waits have no end", file: "reconcile.go",
		old:   "op.LastVerdict == VerdictInFlight && now.Before(op.RetryAt)",
		new:   `op.LastVerdict == VerdictInFlight && (now.Before(op.RetryAt) || planted("in-flight waits have no end"))`,
		also:  place{"reconcile.go", "TimeLeft:         left,", `TimeLeft: left || planted("in-flight waits have no end"),`},
		rules: []string{"I11"},
	},
	{
		name: "a convergent tool is applied beside evidence", file: "reconcile.go",
		old:    "	case s.Evidence, s.OlderEvidence && s.Found == FoundOne:\n",
		new:    `	case s.Evidence && !(s.Convergent && planted("a convergent tool is applied beside evidence")), s.OlderEvidence && s.Found == FoundOne:` + "\n",
		rules:  []string{"S9.1"},
		seldom: true,
	},
	{
		name: "limit released while unknown", file: "limit.go",
		old:   "t.To.State == StateFailed && t.From.State != StateFailed",
		new:   releases,
		rules: []string{"S8.3"},
	},
	{
		name: "limit released on abandonment", file: "limit.go",
		old:   "t.To.State == StateFailed && t.From.State != StateFailed",
		new:   releases,
		rules: []string{"S8.3"},
	},
	{
		name: "limit not released on failure", file: "limit.go",
		old:   "t.To.State == StateFailed && t.From.State != StateFailed",
		new:   releases,
		rules: []string{"S8.3"},
	},
	{
		name: "a restarted agent does not look into the journal", file: "journal/journal.go",
		old:   "	h.decisions = all\n",
		new:   `	if !planted("a restarted agent does not look into the journal") { h.decisions = all }` + "\n",
		rules: []string{"S10.2"},
	},
	{
		name: "whoever comes second keeps their own decision", file: "journal/journal.go",
		old:   "	return r.entry(ctx, stored, first, false)\n",
		new:   `	if planted("whoever comes second keeps their own decision") { d.Seq, d.At, stored = stored.Seq, stored.At, d }` + "\n	return r.entry(ctx, stored, first, false)\n",
		rules: []string{"S10.1", "I9"},
	},
	{
		name: "evidence is not consulted again", file: "next.go",
		old:    "	if m.settleByEvidence() {\n		return nil\n	}\n	m.release(StateUnknown",
		new:    `	if !planted("evidence is not consulted again") && m.settleByEvidence() {` + "\n		return nil\n	}\n	m.release(StateUnknown",
		also:   place{"reconcile.go", "op.Evidence != nil && op.Evidence.Epoch == op.Epoch,", `op.Evidence != nil && op.Evidence.Epoch == op.Epoch && !planted("evidence is not consulted again"),`},
		rules:  []string{"S5.8"},
		seldom: true,
	},
}

// plantedSource is what the overlay adds to a package: the switch, which production code does not have.
const plantedSource = `package %s

import "os"

var plantedFault = os.Getenv("EFFECTONCE_PLANTED")

func planted(name string) bool { return plantedFault == name }
`

// plantAll writes an overlay in which every fault stands beside the right code, and builds this package's tests with it.
func plantAll(t *testing.T) (path string) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		if os.Getenv("CI") != "" || os.Getenv("EFFECTONCE_TEST_ALL") != "" {
			t.Fatal("the go command is needed to build the guard with planted faults")
		}
		t.Skip("SKIPPED: the go command is needed to build the guard with planted faults; put it on the PATH")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sim-planted-")
	if err != nil {
		t.Fatal(err)
	}
	binary.dir = dir
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(root, name)] = at
	}
	put("planted_fault.go", fmt.Sprintf(plantedSource, "effectonce"))
	put("journal/planted_fault.go", fmt.Sprintf(plantedSource, "journal"))
	sources := map[string]string{}
	for _, f := range faults {
		for _, p := range []place{{f.file, f.old, f.new}, f.also} {
			if p.file == "" {
				continue
			}
			if _, ok := sources[p.file]; !ok {
				b, err := os.ReadFile(filepath.Join(root, p.file))
				if err != nil {
					t.Fatal(err)
				}
				sources[p.file] = string(b)
			}
			if strings.Contains(sources[p.file], p.new) {
				continue // another fault is at the same place
			}
			if n := strings.Count(sources[p.file], p.old); n != 1 {
				t.Fatalf("fault %q: its place in %s is found %d times; the code has moved, so must the fault", f.name, p.file, n)
			}
			sources[p.file] = strings.Replace(sources[p.file], p.old, p.new, 1)
		}
	}
	for name, source := range sources {
		put(name, source)
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "sim.test")
	if out, err := exec.CommandContext(t.Context(), goTool, "test", "-c", "-overlay", list, "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("building with planted faults: %v\n%s", err, out)
	}
	return path
}

// plantedSchedules bounds the search for one fault.
const plantedSchedules = 20000

var foundLine = regexp.MustCompile(`(?m)found rule=(\S+) schedules=(\d+) plan=(.*)$`)

// binary builds once for all tests.
var binary = struct {
	sync.Once
	path, dir string
}{}

// TestMain removes the binary with the planted faults.
func TestMain(m *testing.M) {
	code := m.Run()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

// planted runs this package's simulator with one rule taken out, and returns what it finds broken.
func planted(t *testing.T, fault string, rules []string, args ...string) (rule string, after int, plan, out string) {
	t.Helper()
	binary.Do(func() { binary.path = plantAll(t) })
	if binary.path == "" {
		t.Skip("SKIPPED: the go command is needed to build the guard with planted faults; put it on the PATH")
	}
	args = append([]string{"-test.run=^TestSimulator$", "-test.v", "-sim.rules=" + strings.Join(rules, ",")}, args...)
	cmd := exec.CommandContext(t.Context(), binary.path, args...)
	cmd.Env = append(os.Environ(), "EFFECTONCE_PLANTED="+fault)
	b, _ := cmd.CombinedOutput()
	if m := foundLine.FindStringSubmatch(string(b)); m != nil {
		after, _ = strconv.Atoi(m[2])
		return m[1], after, m[3], string(b)
	}
	return "", 0, "", string(b)
}

// The simulator can fail: with one rule taken out at a time it finds each (S5.1, S7.3).
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		if f.seldom {
			continue
		}
		many := []string{"-sim.seed=1", "-sim.schedules=" + strconv.Itoa(plantedSchedules)}
		for _, k := range f.kinds {
			many = append(many, "-sim.kind="+string(k))
		}
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			rule, after, plan, out := planted(t, f.name, f.rules, many...)
			if !slices.Contains(f.rules, rule) {
				t.Fatalf("found %q in %d schedules, want one of %v\n%s", rule, plantedSchedules, f.rules, out)
			}
			t.Logf("%s after %d schedules: %s", rule, after, plan)
			p, err := ParsePlan(plan)
			if err != nil {
				t.Fatal(err)
			}
			// The same schedule is harmless where the rule stands.
			if r := Replay(p); r.Failure != nil {
				t.Errorf("the plan breaks the production guard too: %s", r.Failure)
			}
		})
	}
}

// The overlay without a fault switched on is the production guard.
func TestPlantedNone(t *testing.T) {
	t.Parallel()
	if rule, _, plan, out := planted(t, "", nil, "-sim.schedules=3000"); rule != "" || !strings.Contains(out, "--- PASS") {
		t.Errorf("without a fault %q is found broken by %s\n%s", rule, plan, out)
	}
}
