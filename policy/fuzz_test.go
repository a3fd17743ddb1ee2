package policy

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Whatever arrives is read or refused by name, and what is read has the fingerprint of its business arguments.
func FuzzRead(f *testing.F) {
	tool := mustCompile(f, refund())
	for _, seed := range []string{plainRefund, `{}`, `[]`, `{"order_id":null}`, `{"order_id":"a","order_id":"b"}`, `{"amount":1e400}`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(seed), "5521")
	}
	f.Fuzz(func(t *testing.T, args []byte, ticket string) {
		r, err := tool.Read(args, Meta{"ticket": ticket})
		if err != nil {
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Field == "" || e.Code == effectonce.CodeInternal {
				t.Fatalf("refused as %v", err)
			}
			return
		}
		v, err := canon.Decode(r.Business, canon.Limits{Bytes: 8 << 20})
		if err != nil {
			t.Fatalf("business %s: %v", r.Business, err)
		}
		if sum, err := canon.Sum(v); err != nil || sum != r.Fingerprint {
			t.Fatalf("the fingerprint is not that of %s", r.Business)
		}
		if !json.Valid(r.Template) || !json.Valid(r.Free) || r.IntentID == "" {
			t.Fatalf("reading %+v", r)
		}
	})
}

func FuzzFromDocument(f *testing.F) {
	f.Add(mustCompile(f, refund()).Document())
	f.Add([]byte(`{"format":1,"policy":{"name":"t","intent_id":"{a}{b}","arguments":{"a":{"kind":"identity"}}}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		tool, err := FromDocument(doc)
		if (tool == nil) == (err == nil) {
			t.Fatalf("tool %v, error %v", tool, err)
		}
		if err != nil {
			if effectonce.CodeOf(err) != effectonce.CodePolicyGone {
				t.Fatalf("refused as %v", err)
			}
			return
		}
		if err := tool.Terms().WithDefaults().Check(); err != nil {
			t.Fatalf("terms that cannot be: %v", err)
		}
	})
}
