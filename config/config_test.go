package config

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/policy"
)

// environment is the variables that the tests' files refer to.
func environment(name string) (string, bool) {
	values := map[string]string{"STRIPE_KEY": "sk_test_1", "EMPTY": "", "TWO_LINES": "a\nb"}
	v, ok := values[name]
	return v, ok
}

func mustParse(t testing.TB, file string, data []byte) *Config {
	t.Helper()
	c, err := Parse(file, data, environment)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}

func example(t testing.TB) *Config {
	t.Helper()
	path := filepath.Join("..", "examples", "refund", "effectonce.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return mustParse(t, path, data)
}

// Each archive in testdata/problems has one effectonce.yaml, whatever files it refers to, and the problems it must have. To see
// what changed: EFFECTONCE_UPDATE=1 go test ./config writes them anew.
func TestGoldenProblems(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob(filepath.Join("testdata", "problems", "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			t.Parallel()
			goldenProblems(t, archive)
		})
	}
}

func goldenProblems(t *testing.T, archive string) {
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want, wantAt := "", -1
	for i, f := range a.Files {
		if f.Name == "problems" {
			want, wantAt = string(f.Data), i
			continue
		}
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "effectonce.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(file, data, environment)
	if err == nil {
		t.Fatalf("accepted: %+v", c)
	}
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got a %T: %v", err, err)
	}
	for _, p := range problems {
		if p.Line < 1 || p.Column < 1 || p.Detail == "" || p.Remedy == "" {
			t.Errorf("%+v lacks something", p)
		}
	}
	got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "") + "\n"
	if strings.Contains(got, "hunter2") { // S15.4
		t.Errorf("a secret is in a message: %s", got)
	}
	if os.Getenv("EFFECTONCE_UPDATE") != "" && wantAt >= 0 {
		a.Files[wantAt].Data = []byte(got)
		if err := os.WriteFile(archive, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("problems differ (-want +got):\n%s", diff)
	}
}

func TestTheExampleIsComplete(t *testing.T) {
	t.Parallel()
	c := example(t)
	tool := c.Tools["stripe.refund"]
	if tool == nil || tool.Provider == nil || tool.ProviderName != "stripe" {
		t.Fatalf("tool %+v", tool)
	}
	terms := tool.Terms()
	if !terms.Managed || !terms.Keyed || terms.Retention != 24*time.Hour || !terms.LookUp || terms.Twins != effectonce.TwinHold || terms.Contract == "" || terms.Policy != tool.Policy.Version {
		t.Errorf("terms %+v", terms)
	}
	if tool.Terms().Results != 30*24*time.Hour || c.Listen != DefaultListen || filepath.Base(c.Store) != "refund.db" {
		t.Errorf("config %+v", c)
	}
	in, err := tool.Intent(json.RawMessage(`{"order_id":" o-8812","ticket_id":"t-5521","payment_intent":"pi_1","amount":"480","reason":"it broke","idempotency_key":"mine"}`), policy.Meta{"run": "r1", "step": "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if in.ID != "refund:O-8812:T-5521" || in.Resource != "payment:pi_1" || in.Run != "r1" || in.RequestScope == "" {
		t.Errorf("intent %+v", in)
	}
	for _, want := range []string{"48000", "pi_1"} {
		if !strings.Contains(string(in.Request), want) {
			t.Errorf("the frozen request %s lacks %s", in.Request, want)
		}
	}
	for _, never := range []string{"broke", "mine", "sk_test_1", "8812"} { // S3.9, S3.10, S5.1 I6
		if strings.Contains(string(in.Request), never) {
			t.Errorf("the frozen request %s has %s", in.Request, never)
		}
	}
}

// S3.11: a repeat is read under the version of the first claim.
func TestARepeatIsReadUnderTheStoredVersion(t *testing.T) {
	t.Parallel()
	before := mustParse(t, "effectonce.yaml", []byte("tools: {t: {accept_review: true, arguments: {note: {kind: material, normalise: [trim]}}}}"))
	after := mustParse(t, "effectonce.yaml", []byte("tools: {t: {accept_review: true, arguments: {note: {kind: free}}}}"))
	kept := map[string][]byte{}
	if err := before.Keep(t.Context(), func(_ context.Context, doc []byte) (canon.Digest, error) {
		v, err := canon.Decode(doc, canon.DefaultLimits)
		if err != nil {
			return canon.Digest{}, err
		}
		d, err := canon.Sum(v)
		kept[d.String()] = doc
		return d, err
	}); err != nil {
		t.Fatal(err)
	}
	in, err := after.Tools["t"].Intent(json.RawMessage(`{"note":" a ","x":1}`), nil)
	if err != nil || string(in.Business) != `{"x":1}` {
		t.Fatalf("read as %s, %v", in.Business, err)
	}
	old := before.Tools["t"].Policy.Version
	if _, err := in.Under(t.Context(), old); effectonce.CodeOf(err) != effectonce.CodePolicyGone {
		t.Errorf("without a store: %v", err)
	}
	after.Documents = func(_ context.Context, version string) ([]byte, error) {
		if doc, ok := kept[version]; ok {
			return doc, nil
		}
		return nil, effectonce.ErrNotFound
	}
	if got, err := in.Under(t.Context(), old); err != nil || string(got) != `{"note":"a","x":1}` {
		t.Errorf("under the old version: %s, %v", got, err)
	}
	if got, err := in.Under(t.Context(), after.Tools["t"].Policy.Version); err != nil || string(got) != `{"x":1}` {
		t.Errorf("under its own version: %s, %v", got, err)
	}
	if _, err := in.Under(t.Context(), strings.Repeat("0", 64)); effectonce.CodeOf(err) != effectonce.CodePolicyGone {
		t.Errorf("under an unknown version: %v", err)
	}
}

func TestWhatTheFileDoesNotSay(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "# nothing\n", "tools:\n", "{}\n", "---\n"} {
		c := mustParse(t, filepath.Join("dir", "effectonce.yaml"), []byte(data))
		if c.Listen != DefaultListen || c.Store != filepath.Join("dir", DefaultStore) || len(c.Tools) != 0 {
			t.Errorf("%q: %+v", data, c)
		}
	}
}

func TestTheCallersOwnEffect(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(`
tools:
  mail.send:
    intent_id: "mail:{meta.ticket}"
    call: {timeout: 10s}
    contract: {keyed: true, retention: forever, look_up: true, lag: 0s, key_form: {encoding: hex, length_max: 32}}
`))
	tool := c.Tools["mail.send"]
	terms := tool.Terms()
	if tool.Provider != nil || terms.Managed || !terms.Keyed || !terms.Forever || !terms.LookUp || terms.Lag != 0 || terms.CallTimeout != 10*time.Second || terms.KeyForm.LengthMax != 32 {
		t.Errorf("terms %+v", terms)
	}
	in, err := tool.Intent(nil, policy.Meta{"ticket": "7"})
	if err != nil || in.ID != "mail:7" || in.Request != nil {
		t.Errorf("intent %+v, %v", in, err)
	}
}

func TestTheGenericContractTakesWhatTheOperatorVouchesFor(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(`
providers:
  shop: {contract: http/keyed, base_url: "http://127.0.0.1:9", retention: 48h, key_header: X-Request-Key, rejected: [422]}
tools:
  order:
    intent_id: "order:{id}"
    arguments: {id: {kind: identity}, quantity: {normalise: integer}}
    call: {provider: shop, method: PUT, path: "/orders/{id}", body: {quantity: "{quantity}"}}
`))
	terms := c.Tools["order"].Terms()
	if !terms.Keyed || terms.Retention != 48*time.Hour || terms.LookUp {
		t.Errorf("terms %+v", terms)
	}
	in, err := c.Tools["order"].Intent(json.RawMessage(`{"id":"a/b","quantity":"3"}`), nil)
	if err != nil || !strings.Contains(string(in.Request), "3") {
		t.Errorf("request %s, %v", in.Request, err)
	}
}

func TestAContractOfOnesOwnNeedsAnotherName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stripe, err := os.ReadFile(filepath.Join("..", "contract", "providers", "stripe-v1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("contracts: .\nproviders: {mine: {contract: mine/v1, base_url: \"http://127.0.0.1:9\"}}\n")
	file := filepath.Join(dir, "stripe.yaml")
	for content, want := range map[string]string{
		string(stripe): `"stripe/v1" is built in`,
		strings.Replace(string(stripe), "contract: stripe/v1", "contract: mine/v1", 1): "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Parse(filepath.Join(dir, "effectonce.yml"), data, environment)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), file+":1:1: contract: "+want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestLoadSaysWhyAFileCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{filepath.Join(t.TempDir(), "absent.yaml"), t.TempDir()} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	path := filepath.Join(t.TempDir(), "effectonce.yaml")
	if err := os.WriteFile(path, []byte("tool: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":1:1: tool: is not a field here: did you mean tools?") {
		t.Errorf("got %v", err)
	}
}

// S3.10: a secret is read when it is used, so that a rotated one counts.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseCredential("file:key", dir, environment)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.read(t.Context()); err != nil || s != "one" {
		t.Errorf("%q, %v", s, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := c.read(t.Context()); err != nil || s != "two" {
		t.Errorf("after rotation: %q, %v", s, err)
	}
	for _, text := range []string{"env:EMPTY", "env:TWO_LINES", "env:ABSENT", "file:absent", "file:."} {
		c, err := parseCredential(text, dir, environment)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.read(t.Context()); err == nil {
			t.Errorf("%s: read %q", text, s)
		}
	}
	for _, text := range []string{"sk_live_hunter2", "env:", "env:a b", "file:", "vault:x", "ENV:X"} {
		if _, err := parseCredential(text, dir, environment); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("..", "examples", "refund", "effectonce.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, seed := range []string{"", "a: [", "tools: {t: {intent_id: \"{a\"}}", "a: &x [*x]", "? {a: b}\n: c\n", "- - - -", "tools: {t: {arguments: {a: {default: .inf}}}}", "a: !!map {}", "\"\\ud800\": 1", "a: |\n b\n---\nc: d"} {
		f.Add([]byte(seed))
	}
	archives, err := filepath.Glob(filepath.Join("testdata", "problems", "*.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for _, archive := range archives {
		a, err := txtar.ParseFile(archive)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Files[0].Data)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(filepath.Join(dir, "effectonce.yaml"), data, environment)
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		var problems Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("an error that is no Problems: %v", err)
		}
	})
}
