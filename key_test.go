package effectonce_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

var update = flag.Bool("update", false, "rewrite generated files under testdata and docs")

// keyVector is one line of testdata/vectors.json, which other languages can test against.
type keyVector struct {
	Identity      map[string]any `json:"identity"`
	Canonical     string         `json:"canonical"`
	Key           string         `json:"key"`
	Secret        string         `json:"secret_hex"`
	Stamp         string         `json:"stamp"`
	DownstreamKey string         `json:"downstream_key_uuid"`
	NextEpoch     string         `json:"downstream_key_uuid_epoch_1"`
}

type fingerprintVector struct {
	Business    string `json:"business"`
	Canonical   string `json:"canonical"`
	Fingerprint string `json:"fingerprint"`
}

type vectors struct {
	Note         string              `json:"note"`
	Keys         []keyVector         `json:"keys"`
	Fingerprints []fingerprintVector `json:"fingerprints"`
}

var identities = []effectonce.Identity{
	{Tenant: "default", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: "refund:order-8812:ticket-5521"},
	{Tenant: "default", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: "refund:order-8812:ticket-5521", Revision: 1},
	{Tenant: "acme", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: "refund:order-8812:ticket-5521"},
	{Tenant: "default", Tool: "mail.send", Scope: effectonce.ScopeRun, Run: "run-1", IntentID: "welcome:kunde-7"},
	{Tenant: "default", Tool: "mail.send", Scope: effectonce.ScopeStep, Run: "run-1", Step: "3", IntentID: "welcome:kunde-7"},
	{Tenant: "default", Tool: "müll.abholen", Scope: effectonce.ScopeBusiness, IntentID: "straße 5 \"hof\""},
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	v := vectors{Note: "key = SHA-256 of canonical (RFC 8785); stamp and downstream key = HMAC-SHA-256, see docs/identity.md (S3.1, S3.9, S4.1)"}
	secret := []byte("0123456789abcdef0123456789abcdef")
	for _, id := range identities {
		key, err := id.Key()
		if err != nil {
			t.Fatal(err)
		}
		form := map[string]any{"v": 1, "tenant": id.Tenant, "tool": id.Tool, "intent_id": id.IntentID}
		if id.Scope != effectonce.ScopeBusiness {
			form["run"] = id.Run
		}
		if id.Scope == effectonce.ScopeStep {
			form["step"] = id.Step
		}
		if id.Revision > 0 {
			form["revision"] = id.Revision
		}
		b, err := canon.Encode(form)
		if err != nil {
			t.Fatal(err)
		}
		if sum, _ := canon.Sum(form); effectonce.Key(sum) != key {
			t.Fatalf("the key of %+v is not the hash of its canonical form", id)
		}
		v.Keys = append(v.Keys, keyVector{
			Identity: form, Canonical: string(b), Key: key.String(), Secret: hex.EncodeToString(secret),
			Stamp:         effectonce.StampOf(secret, key),
			DownstreamKey: effectonce.DownstreamKey(secret, key, 0, effectonce.KeyForm{}),
			NextEpoch:     effectonce.DownstreamKey(secret, key, 1, effectonce.KeyForm{}),
		})
	}
	for _, in := range []string{
		`{"amount":480,"currency":"EUR","order_id":"8812"}`,
		`{ "order_id" : "8812", "currency" : "EUR", "amount" : 4.8e2 }`,
		`{"order_id":"8812","currency":"EUR","amount":480.01}`,
		`{"name":"e\u0301"}`,
		`{"name":"\u00e9"}`,
		`{}`,
	} {
		op := preview(t, in)
		v.Fingerprints = append(v.Fingerprints, fingerprintVector{Business: in, Canonical: string(op.Business), Fingerprint: op.Fingerprint.String()})
	}
	return v
}

// S3.1: the formula has a version and published vectors.
func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	got, err := json.MarshalIndent(makeVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/vectors.json"
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != string(got) {
		t.Errorf("%s is not what the code computes; a changed vector is a changed identity for everybody", file)
	}
}

// S3.1, S3.2: what is in scope makes another key, what is not does not.
func TestScopeDecidesWhatIsIdentity(t *testing.T) {
	t.Parallel()
	base := effectonce.Identity{Tenant: "t", Tool: "x", IntentID: "i", Run: "r", Step: "s"}
	key := func(change func(*effectonce.Identity)) effectonce.Key {
		id := base
		change(&id)
		k, err := id.Key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, scope := range []effectonce.Scope{effectonce.ScopeBusiness, effectonce.ScopeRun, effectonce.ScopeStep} {
		plain := key(func(id *effectonce.Identity) { id.Scope = scope })
		otherRun := key(func(id *effectonce.Identity) { id.Scope = scope; id.Run = "r2" })
		otherStep := key(func(id *effectonce.Identity) { id.Scope = scope; id.Step = "s2" })
		if (plain == otherRun) != (scope == effectonce.ScopeBusiness) {
			t.Errorf("scope %s: another run is the same key: %v", scope, plain == otherRun)
		}
		if (plain == otherStep) != (scope != effectonce.ScopeStep) {
			t.Errorf("scope %s: another step is the same key: %v", scope, plain == otherStep)
		}
	}
}

// S3.3: a missing component is an error, never an empty string.
func TestEmptyComponentsAreRefused(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]effectonce.Identity{
		"tenant":    {Tool: "x", IntentID: "i", Scope: effectonce.ScopeBusiness},
		"tool":      {Tenant: "t", IntentID: "i", Scope: effectonce.ScopeBusiness},
		"intent_id": {Tenant: "t", Tool: "x", Scope: effectonce.ScopeBusiness},
		"run":       {Tenant: "t", Tool: "x", IntentID: "i", Scope: effectonce.ScopeRun},
		"step":      {Tenant: "t", Tool: "x", IntentID: "i", Run: "r", Scope: effectonce.ScopeStep},
	} {
		_, err := id.Key()
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeIntentIncomplete || e.Field != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// S3.1: no two identities share a key, whatever their components hold.
func TestKeysAreInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.Custom(func(t *rapid.T) effectonce.Identity {
			part := rapid.StringMatching(`[ab:"{},\\]{1,3}`)
			return effectonce.Identity{
				Tenant: part.Draw(t, "tenant"), Tool: part.Draw(t, "tool"), IntentID: part.Draw(t, "id"), Run: part.Draw(t, "run"), Step: part.Draw(t, "step"),
				Scope: effectonce.ScopeStep, Revision: rapid.IntRange(0, 2).Draw(t, "revision"),
			}
		})
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		ka, err1 := a.Key()
		kb, err2 := b.Key()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (a == b) != (ka == kb) {
			t.Fatalf("%+v and %+v: keys %s and %s", a, b, ka, kb)
		}
	})
}

// S3.9: the downstream key has the form asked for, is stable, differs by epoch and installation, and cannot be had without the secret.
func TestDownstreamKeyForms(t *testing.T) {
	t.Parallel()
	key, _ := identities[0].Key()
	secret := []byte("secret")
	for _, c := range []struct {
		name string
		form effectonce.KeyForm
		size int
	}{
		{"uuid by default", effectonce.KeyForm{}, 36},
		{"hex", effectonce.KeyForm{Encoding: "hex"}, 64},
		{"hex, cut", effectonce.KeyForm{Encoding: "hex", LengthMax: 32}, 32},
		{"base64url", effectonce.KeyForm{Encoding: "base64url"}, 43},
		{"base32, cut", effectonce.KeyForm{Encoding: "base32", LengthMax: 25}, 25},
		{"prefix counts", effectonce.KeyForm{Encoding: "hex", LengthMax: 40, Prefix: "eo_"}, 40},
	} {
		a := effectonce.DownstreamKey(secret, key, 0, c.form)
		if len(a) != c.size {
			t.Errorf("%s: %q has %d characters, want %d", c.name, a, len(a), c.size)
		}
		if a != effectonce.DownstreamKey(secret, key, 0, c.form) {
			t.Errorf("%s: not stable", c.name)
		}
		if a == effectonce.DownstreamKey(secret, key, 1, c.form) || a == effectonce.DownstreamKey([]byte("other"), key, 0, c.form) {
			t.Errorf("%s: does not depend on epoch and secret", c.name)
		}
	}
	uuid := effectonce.DownstreamKey(secret, key, 0, effectonce.KeyForm{})
	if uuid[14] != '4' || !strings.ContainsRune("89ab", rune(uuid[19])) {
		t.Errorf("%s is not a version 4 UUID", uuid)
	}
}

func TestParseKeyNamesTheRemedy(t *testing.T) {
	t.Parallel()
	key, _ := identities[0].Key()
	again, err := effectonce.ParseKey(key.String())
	if err != nil || again != key {
		t.Fatalf("%v %v", again, err)
	}
	if _, err := effectonce.ParseKey("zz"); !errors.Is(err, effectonce.ErrInvalid) || !strings.Contains(err.Error(), "64 hex digits") {
		t.Error(err)
	}
}
