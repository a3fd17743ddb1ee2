package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

func values(texts ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, v := range texts {
		out = append(out, json.RawMessage(v))
	}
	return out
}

// limited is a policy with one argument of each kind of value that one_of can list.
func limited() Spec {
	return Spec{Name: "t", IntentID: "{order}", Arguments: map[string]Argument{
		"order":    {Kind: KindIdentity, Normalise: []Normaliser{{Name: "capture", Argument: "order-([0-9]+)"}}, OneOf: values(`"1"`, `"2"`)},
		"currency": {Normalise: steps("trim", "upper"), Default: json.RawMessage(`"eur"`), OneOf: values(`"EUR"`, `"USD"`)},
		"count":    {OneOf: values(`1`, `2`)},
		"express":  {OneOf: values(`false`)},
	}}
}

func TestOnlyAllowedValuesAreAccepted(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, limited())
	for _, good := range []string{
		`{"order":"order-1"}`, `{"order":"order-2","currency":" usd"}`, `{"order":"order-1","currency":null,"count":null}`,
		`{"order":"order-1","count":2.0,"express":false}`, `{"order":"order-1","count":1}`,
	} {
		mustRead(t, tool, good)
	}
	for args, want := range map[string][2]string{
		`{"order":"order-3"}`:                   {"arguments.order", `use one of "1", "2"`},
		`{"order":"order-1","currency":"GBP"}`:  {"arguments.currency", `use one of "EUR", "USD"`},
		`{"order":"order-1","currency":"EUR "}`: {},
		`{"order":"order-1","currency":""}`:     {"arguments.currency", `use one of "EUR", "USD"`},
		`{"order":"order-1","count":3}`:         {"arguments.count", "use one of 1, 2"},
		`{"order":"order-1","count":"1"}`:       {"arguments.count", "use one of 1, 2"},
		`{"order":"order-1","count":[1]}`:       {"arguments.count", "use one of 1, 2"},
		`{"order":"order-1","express":true}`:    {"arguments.express", "use one of false"},
		`{"order":"order-1","express":"false"}`: {"arguments.express", "use one of false"},
		`{"order":"order-1","currency":"ＥＵＲ"}`:  {"arguments.currency", `use one of "EUR", "USD"`},
	} {
		_, err := tool.Read(json.RawMessage(args), nil)
		if want[0] == "" {
			if err != nil {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeInvalid || e.Field != want[0] || e.Remedy != want[1] {
			t.Errorf("%s: %v", args, err)
		}
	}
	if why := mustRead(t, tool, `{"order":"order-1"}`).Values["currency"].Why; !strings.Contains(why, `allowed are "EUR", "USD"`) {
		t.Errorf("why: %q", why)
	}
}

// S3.11, S3.12: what is accepted belongs to the policy's version, and not to the identity.
func TestAllowedValuesAreInTheDocumentAndNotInTheIdentity(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, limited())
	again, err := FromDocument(tool.Document())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Read(json.RawMessage(`{"order":"order-3"}`), nil); effectonce.CodeOf(err) != effectonce.CodeInvalid {
		t.Errorf("the rebuilt tool accepts what the policy does not allow: %v", err)
	}
	wider := limited()
	order := wider.Arguments["order"]
	order.OneOf, order.Required = slices.Concat(order.OneOf, values(`"3"`)), true
	wider.Arguments["order"] = order
	other := mustCompile(t, wider)
	if other.Version == tool.Version {
		t.Error("other allowed values have the same version")
	}
	one, errOne := tool.IdentityVersion()
	two, errTwo := other.IdentityVersion()
	if errOne != nil || errTwo != nil || one != two {
		t.Errorf("other allowed values have another identity version: %v, %v", errOne, errTwo)
	}
}
