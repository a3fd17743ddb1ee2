package policy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// refund is the policy that most tests read with.
func refund() Spec {
	return Spec{
		Name:     "stripe.refund",
		Class:    effectonce.ClassNonIdempotent,
		Scope:    effectonce.ScopeBusiness,
		IntentID: "refund:{order_id}:{ticket_id}",
		Resource: "payment:{payment_intent}",
		Arguments: map[string]Argument{
			"order_id":       {Kind: KindIdentity, Normalise: steps("trim", "upper")},
			"ticket_id":      {Kind: KindIdentity},
			"payment_intent": {Kind: KindMaterial, Required: true},
			"amount":         {Kind: KindMaterial, Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Currency: "currency"}}}},
			"currency":       {Normalise: steps("upper"), Default: json.RawMessage(`"EUR"`)},
			"reason":         {Kind: KindFree},
		},
		Twins: Twins{On: []string{"order_id", "amount"}, Do: "hold"},
	}
}

func steps(names ...string) []Normaliser {
	var out []Normaliser
	for _, n := range names {
		out = append(out, Normaliser{Name: n})
	}
	return out
}

func mustCompile(t testing.TB, spec Spec) *Tool {
	t.Helper()
	tool, problems := Compile(spec)
	if len(problems) > 0 {
		t.Fatalf("the policy has problems: %v", problems)
	}
	return tool
}

const plainRefund = `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"reason":"damaged"}`

func mustRead(t testing.TB, tool *Tool, args string) Reading {
	t.Helper()
	r, err := tool.Read(json.RawMessage(args), nil)
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return r
}

// S4.1, S4.2, S4.3
func TestSpellingsOfOneRefundAreOneReading(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, refund())
	want := mustRead(t, tool, plainRefund)
	if got := want.IntentID; got != "refund:O-8812:5521" {
		t.Errorf("intent id %q", got)
	}
	if got := string(want.Business); got != `{"amount":{"currency":"EUR","minor":"48000"},"currency":"EUR","order_id":"O-8812","payment_intent":"pi_1","ticket_id":"5521"}` {
		t.Errorf("business %s", got)
	}
	if got := string(want.Template); !strings.Contains(got, `"amount":{"currency":"EUR","decimal":"480.00","minor":48000}`) {
		t.Errorf("template values %s", got)
	}
	if got := string(want.Free); got != `{"reason":"damaged"}` {
		t.Errorf("free %s", got)
	}
	if want.Resource != "payment:pi_1" {
		t.Errorf("resource %q", want.Resource)
	}
	for name, args := range map[string]string{
		"other words":           `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"reason":"Customer says it came broken; <please> refund"}`,
		"no words":              `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480}`,
		"amount as text":        `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":"480"}`,
		"amount with cents":     `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480.00}`,
		"amount with exponent":  `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":4.8e2}`,
		"explicit default":      `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"currency":"eur"}`,
		"null for the default":  `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"currency":null}`,
		"other order and space": ` { "amount" : 480, "payment_intent":"pi_1", "ticket_id":"5521","order_id":" O-8812 "}`,
		"a key from the model":  `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"idempotencyKey":"try-2"}`,
		"escapes":               `{"order_id":"\u006f-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480}`,
	} {
		got := mustRead(t, tool, args)
		if got.IntentID != want.IntentID || got.Fingerprint != want.Fingerprint || string(got.Business) != string(want.Business) || got.Twin != want.Twin {
			t.Errorf("%s: read as %q %s", name, got.IntentID, got.Business)
		}
	}
	for name, args := range map[string]string{
		"other amount":      `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480.01}`,
		"other currency":    `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"currency":"USD"}`,
		"other payment":     `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_2","amount":480}`,
		"something unnamed": `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"notify":true}`,
		"unnamed null":      `{"order_id":"o-8812","ticket_id":5521,"payment_intent":"pi_1","amount":480,"notify":null}`,
	} {
		got := mustRead(t, tool, args)
		if got.Fingerprint == want.Fingerprint {
			t.Errorf("%s: has the same fingerprint", name)
		}
		if got.IntentID != want.IntentID {
			t.Errorf("%s: changed the intent id to %q", name, got.IntentID)
		}
	}
}

// S3.1, S3.9
func TestKeysOfTheCallerAreRecordedAndNeverUsed(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.Drop = []string{"request_id"}
	tool := mustCompile(t, spec)
	for _, name := range []string{"idempotency_key", "idempotencyKey", "idempotency-key", "Idempotency-Key", "request_id"} {
		r := mustRead(t, tool, strings.TrimSuffix(plainRefund, "}")+`,"`+name+`":"attempt-7"}`)
		for part, bytes := range map[string]json.RawMessage{"business": r.Business, "template": r.Template, "free": r.Free} {
			if strings.Contains(string(bytes), "attempt-7") {
				t.Errorf("%s is in %s: %s", name, part, bytes)
			}
		}
		if v := r.Values[name]; v.Kind != KindDropped || string(v.Given) != `"attempt-7"` {
			t.Errorf("%s: recorded as %+v", name, v)
		}
	}
}

func TestEveryRefusedCallNamesFieldAndRemedy(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, refund())
	cases := map[string]struct {
		args  string
		code  effectonce.Code
		field string
	}{
		"not an object":         {`[1]`, effectonce.CodeInvalid, "arguments"},
		"not JSON":              {`{"order_id":`, effectonce.CodeNotCanonical, "arguments.order_id"},
		"a name twice":          {`{"order_id":"a","order_id":"b"}`, effectonce.CodeNotCanonical, "arguments.order_id"},
		"lone surrogate":        {`{"order_id":"\ud800"}`, effectonce.CodeNotCanonical, "arguments.order_id"},
		"unsafe integer":        {`{"order_id":"a","ticket_id":"b","payment_intent":"c","n":{"x":9007199254740993}}`, effectonce.CodeNotCanonical, "arguments.n.x"},
		"identity missing":      {`{"order_id":"a","payment_intent":"c"}`, effectonce.CodeIntentIncomplete, "arguments.ticket_id"},
		"identity empty":        {`{"order_id":"   ","ticket_id":"b","payment_intent":"c"}`, effectonce.CodeIntentIncomplete, "arguments.order_id"},
		"identity null":         {`{"order_id":null,"ticket_id":"b","payment_intent":"c"}`, effectonce.CodeIntentIncomplete, "arguments.order_id"},
		"identity an object":    {`{"order_id":{"a":1},"ticket_id":"b","payment_intent":"c"}`, effectonce.CodeInvalid, "arguments.order_id"},
		"identity a fraction":   {`{"order_id":"a","ticket_id":1.5,"payment_intent":"c"}`, effectonce.CodeInvalid, "arguments.ticket_id"},
		"required missing":      {`{"order_id":"a","ticket_id":"b"}`, effectonce.CodeInvalid, "arguments.payment_intent"},
		"too many decimals":     {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":"4.805"}`, effectonce.CodeInvalid, "arguments.amount"},
		"grouped amount":        {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":"1,480"}`, effectonce.CodeInvalid, "arguments.amount"},
		"negative amount":       {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":-1}`, effectonce.CodeInvalid, "arguments.amount"},
		"empty amount":          {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":""}`, effectonce.CodeInvalid, "arguments.amount"},
		"unknown currency":      {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":1,"currency":"EURO"}`, effectonce.CodeInvalid, "arguments.currency"},
		"currency not a string": {`{"order_id":"a","ticket_id":"b","payment_intent":"c","amount":1,"currency":978}`, effectonce.CodeInvalid, "arguments.currency"},
		"names equal in NFC":    {"{\"caf\u00e9\":1,\"cafe\u0301\":2}", effectonce.CodeNotCanonical, "arguments.caf\u00e9"},
	}
	for name, c := range cases {
		_, err := tool.Read(json.RawMessage(c.args), nil)
		var e *effectonce.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if e.Code != c.code || (e.Field != c.field && name != "not JSON") || e.Remedy == "" || e.Detail == "" {
			t.Errorf("%s: got %s, field %s, remedy %q", name, e.Code, e.Field, e.Remedy)
		}
	}
}

// S3.3: metadata is a component like an argument.
func TestMetadataInTheIntentID(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "mail.send", IntentID: "mail:{meta.ticket}/{meta.step}"})
	r, err := tool.Read(nil, Meta{"ticket": "5521:a/b", "step": "3"})
	if err != nil || r.IntentID != "mail:5521%3Aa%2Fb/3" {
		t.Errorf("got %q, %v", r.IntentID, err)
	}
	for missing, meta := range map[string]Meta{"context.ticket": {"step": "3"}, "step": {"ticket": "5521", "step": ""}} {
		_, err := tool.Read(nil, meta)
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeIntentIncomplete || e.Field != missing {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// S3.3: what people cannot see must not make a new identity.
func TestComponentsThatCannotBeSeenAreRefused(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "t", IntentID: "{order_id}:{meta.ticket}:{meta.run}", Resource: "payment:{payment}", Arguments: map[string]Argument{
		"order_id": {Kind: KindIdentity}, "payment": {Kind: KindMaterial},
	}})
	read := func(order, ticket, run, payment string) error {
		args, err := json.Marshal(map[string]string{"order_id": order, "payment": payment})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tool.Read(args, Meta{"ticket": ticket, "run": run})
		return err
	}
	for name, bad := range map[string]string{
		"control": "O\u0007-1", "line feed": "O\n1", "delete": "O\u007f1", "C1 control": "O\u00851",
		"zero width space": "O\u200b-1", "zero width joiner": "O\u200d-1", "word joiner": "O\u2060-1", "soft hyphen": "O\u00ad-1",
		"byte order mark": "\ufeffO-1", "right to left override": "O\u202e-1", "left to right mark": "O-1\u200e",
		"tag": "O\U000e0041-1", "variation selector": "O\ufe0f-1", "grapheme joiner": "O\u034f-1", "Hangul filler": "O\u3164-1",
		"no-break space": "O\u00a01", "ideographic space": "O\u30001", "thin space": "O\u20091", "blank Braille": "O\u28001",
		"line separator": "O\u20281", "paragraph separator": "O\u20291",
		"private use": "O\ue000-1", "private plane": "O\U000f0000-1", "noncharacter": "O\ufdd0-1", "last of a plane": "O\U0001ffff-1",
		"unassigned": "O\u0378-1", "replacement character": "O\ufffd-1",
		"space in front": " O-1", "space behind": "O-1 ",
	} {
		for field, err := range map[string]error{
			"arguments.order_id": read(bad, "T", "r", "p"), "context.ticket": read("O", bad, "r", "p"), "run": read("O", "T", bad, "p"),
			"arguments.payment": read("O", "T", "r", bad),
		} {
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Code != effectonce.CodeInvalid || e.Field != field || e.Detail == "" || e.Remedy == "" {
				t.Errorf("%s in %s: %v", name, field, err)
			}
		}
	}
	for name, blank := range map[string]string{"space": " ", "no-break spaces": "\u00a0\u00a0", "tab": "\t"} {
		if err := read(blank, "T", "r", "p"); effectonce.CodeOf(err) != effectonce.CodeIntentIncomplete {
			t.Errorf("only %s: %v", name, err)
		}
	}
	for _, good := range []string{"O-1", "Bestellung 7", "Größe", "注文-1", "заказ-1", "طلب", "e\u0301", "a/b:c%{}", "№1", "👍"} {
		if err := read(good, good, good, good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	if err := read("O\u200b", "T", "r", "p"); err == nil || !strings.Contains(err.Error(), "U+200B") {
		t.Errorf("the character is not named: %v", err)
	}
}

func TestAmountsInTheIntentIDAndInMinorUnits(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, Spec{Name: "pay", IntentID: "pay:{order}:{amount.minor}:{amount.currency}", Arguments: map[string]Argument{
		"order":  {Kind: KindIdentity, Normalise: []Normaliser{{Name: "capture", Argument: `order-([0-9]+)`}}},
		"amount": {Kind: KindIdentity, Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Code: "KWD", Unit: "minor", Negative: true}}}},
	}})
	r := mustRead(t, tool, `{"order":"the order-77, please","amount":-1500}`)
	if r.IntentID != "pay:77:-1500:KWD" {
		t.Errorf("intent id %q", r.IntentID)
	}
	if !strings.Contains(string(r.Template), `"decimal":"-1.500"`) {
		t.Errorf("template values %s", r.Template)
	}
}

// S3.11
func TestADocumentRebuildsTheSameTool(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.Call = json.RawMessage(`{"provider":"stripe","body":{"b":1,"a":"{amount.minor}"}}`)
	spec.Timeout, spec.Retry.Attempts = Duration(30e9), 4
	tool := mustCompile(t, spec)
	again, err := FromDocument(tool.Document())
	if err != nil {
		t.Fatal(err)
	}
	if again.Version != tool.Version || again.Terms() != tool.Terms() || len(tool.Version) != 64 {
		t.Errorf("version %s became %s", tool.Version, again.Version)
	}
	a, b := mustRead(t, tool, plainRefund), mustRead(t, again, plainRefund)
	if a.Fingerprint != b.Fingerprint || a.IntentID != b.IntentID || a.Twin != b.Twin {
		t.Error("the rebuilt tool reads differently")
	}
	changed := refund()
	changed.Arguments["ticket_id"] = Argument{Kind: KindIdentity, Normalise: steps("digits")}
	other := mustCompile(t, changed)
	if other.Version == tool.Version {
		t.Error("another policy has the same version")
	}
	for name, doc := range map[string]string{
		"another format":   `{"format":2,"policy":{"name":"x"}}`,
		"an unknown field": `{"format":1,"policy":{"name":"x","later":true}}`,
		"not JSON":         `{`,
		"a broken policy":  `{"format":1,"policy":{"name":"x","intent_id":"{a}"}}`,
	} {
		if _, err := FromDocument([]byte(doc)); effectonce.CodeOf(err) != effectonce.CodePolicyGone {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S3.11: what one release stored, every later one must write and read alike, or repeats would meet another version.
func TestTheFormOfDocumentsStaysAsItIs(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "document.json"))
	if err != nil {
		t.Fatal(err)
	}
	spec := refund()
	spec.Call = json.RawMessage(`{"provider":"stripe","operation":"refunds.create"}`)
	spec.Retry = Retry{Attempts: 4, Within: Duration(30 * time.Minute)}
	spec.Contract = &Effect{LookUp: true, Lag: new(Duration)}
	tool := mustCompile(t, spec)
	if got := string(tool.Document()); got != strings.TrimSpace(string(want)) {
		t.Errorf("the document is now\n%s", got)
	}
	if tool.Version != "8d8164b99c369b6959324c65ab1efa3404542542173924ef889ba44e1b5ef071" {
		t.Errorf("the version is now %s", tool.Version)
	}
	again, err := FromDocument(tool.Document())
	if err != nil || again.Version != tool.Version || again.Terms() != tool.Terms() {
		t.Errorf("read again: %v", err)
	}
}

// S3.12
func TestTheIdentityVersionChangesOnlyWithWhatDecidesAboutKeys(t *testing.T) {
	t.Parallel()
	version := func(change func(*Spec)) string {
		spec := refund()
		change(&spec)
		v, err := mustCompile(t, spec).IdentityVersion()
		if err != nil {
			t.Fatal(err)
		}
		return v.String()
	}
	same := version(func(*Spec) {})
	if version(func(s *Spec) {
		s.Retry.Attempts, s.Twins.Do, s.Arguments["note"] = 7, "reject", Argument{Kind: KindFree}
	}) != same {
		t.Error("a change that leaves keys alone changed the identity version")
	}
	for name, change := range map[string]func(*Spec){
		"scope":      func(s *Spec) { s.Scope = effectonce.ScopeRun },
		"template":   func(s *Spec) { s.IntentID = "r:{order_id}:{ticket_id}" },
		"normaliser": func(s *Spec) { s.Arguments["order_id"] = Argument{Kind: KindIdentity, Normalise: steps("trim")} },
	} {
		if version(change) == same {
			t.Errorf("another %s has the same identity version", name)
		}
	}
}

func TestTermsHaveWhatThePolicySays(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.Timeout, spec.Approval, spec.Contract = Duration(10e9), true, &Effect{Keyed: true, Forever: true}
	terms := mustCompile(t, spec).Terms()
	if terms.Twins != effectonce.TwinHold || terms.TwinsWithin != twinsWithinDefault || !terms.Approval || !terms.Keyed || !terms.Forever || terms.CallTimeout != 10e9 {
		t.Errorf("terms %+v", terms)
	}
	// S14.5: a lag that nobody knows concludes nothing.
	if terms := mustCompile(t, Spec{Name: "x", Contract: &Effect{LookUp: true}}).Terms(); !terms.LookUp || !terms.LagUnknown {
		t.Errorf("an unknown lag: %+v", terms)
	}
	if terms := mustCompile(t, Spec{Name: "x", Contract: &Effect{LookUp: true, Lag: new(Duration)}}).Terms(); terms.Lag != 0 || terms.LagUnknown {
		t.Errorf("no lag: %+v", terms)
	}
	if terms := mustCompile(t, Spec{Name: "x"}).Terms(); terms.Class != effectonce.ClassNonIdempotent || terms.Twins != effectonce.TwinAllow {
		t.Errorf("a policy that says nothing: %+v", terms)
	}
	if terms := mustCompile(t, Spec{Name: "x", Twins: Twins{Do: "off"}}).Terms(); terms.Twins != effectonce.TwinOff {
		t.Errorf("twins off: %+v", terms)
	}
}

func TestAnIntentIsWhatTheGuardTakes(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, refund())
	in, err := tool.Intent(json.RawMessage(plainRefund), Meta{"run": "r1", "step": "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if in.Tool != "stripe.refund" || in.Run != "r1" || in.Step != "s1" || in.ID != "refund:O-8812:5521" || string(in.Arguments) != plainRefund || in.Terms.Policy != tool.Version {
		t.Errorf("intent %+v", in)
	}
	if strings.Contains(string(in.Business), "damaged") { // S5.1 I6
		t.Errorf("free text in %s", in.Business)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"30s": "30s", "30d": "720h0m0s", "1d12h": "36h0m0s", "1.5h": "1h30m0s"} {
		if d, err := ParseDuration(s); err != nil || d.String() != want {
			t.Errorf("%s: %s, %v", s, d, err)
		}
	}
	for _, s := range []string{"", "0s", "-1s", "30", "d", "1dd", "1d-1h", "99999d", "9999999h", "2y", "1d1d"} {
		if d, err := ParseDuration(s); err == nil {
			t.Errorf("%q is read as %s", s, d)
		}
	}
}
