package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEveryProblemOfAPolicyIsNamed(t *testing.T) {
	t.Parallel()
	identity := Argument{Kind: KindIdentity}
	amount := func(a *Amount) Argument { return Argument{Normalise: []Normaliser{{Name: "amount", Amount: a}}} }
	cases := map[string]struct {
		spec Spec
		want string // a part of the first problem
	}{
		"no name":                     {Spec{}, "name: a tool needs a name"},
		"unknown class":               {Spec{Name: "t", Class: "idempotent"}, `class: "idempotent" is not known: use read_only`},
		"unknown scope":               {Spec{Name: "t", Scope: "tenant"}, "scope: "},
		"unknown kind":                {Spec{Name: "t", Arguments: map[string]Argument{"a": {Kind: "key"}}}, "arguments.a.kind: "},
		"unknown normaliser":          {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("uper")}}}, "arguments.a.normalise: no normaliser is called"},
		"capture without group":       {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: []Normaliser{{Name: "capture", Argument: "x"}}}}}, "arguments.a.normalise: the pattern of capture has 0 groups"},
		"free with normaliser":        {Spec{Name: "t", Arguments: map[string]Argument{"a": {Kind: KindFree, Normalise: steps("trim")}}}, "arguments.a.normalise: a free argument"},
		"free with default":           {Spec{Name: "t", Arguments: map[string]Argument{"a": {Kind: KindFree, Default: json.RawMessage(`"x"`)}}}, "arguments.a.default: a free argument"},
		"default not normalisable":    {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("currency"), Default: json.RawMessage(`"EURO"`)}}}, "arguments.a.default: not an ISO 4217"},
		"default beyond a double":     {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("decimal"), Default: json.RawMessage(`9007199254740993`)}}}, "arguments.a.default: the number"},
		"a model's key as identity":   {Spec{Name: "t", IntentID: "{idempotency_key}", Arguments: map[string]Argument{"idempotency_key": identity}}, "arguments.idempotency_key: is dropped"},
		"amount without currency":     {Spec{Name: "t", Arguments: map[string]Argument{"a": amount(nil)}}, "arguments.a.normalise: an amount needs its currency"},
		"amount of unknown argument":  {Spec{Name: "t", Arguments: map[string]Argument{"a": amount(&Amount{Currency: "c"})}}, `the currency argument "c" is not declared`},
		"amount of free currency":     {Spec{Name: "t", Arguments: map[string]Argument{"a": amount(&Amount{Currency: "c"}), "c": {Kind: KindFree}}}, "is free"},
		"amount of unknown code":      {Spec{Name: "t", Arguments: map[string]Argument{"a": amount(&Amount{Code: "EURO"})}}, "not an ISO 4217"},
		"amount of unknown unit":      {Spec{Name: "t", Arguments: map[string]Argument{"a": amount(&Amount{Code: "EUR", Unit: "cents"})}}, `"cents" is not known: use major or minor`},
		"amount not last":             {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Code: "EUR"}}, {Name: "trim"}}}}}, "amount is not the last"},
		"template without end":        {Spec{Name: "t", IntentID: "{a"}, "intent_id: has a { without a }"},
		"template without start":      {Spec{Name: "t", IntentID: "a}"}, "intent_id: has a } without a {"},
		"template naming nothing":     {Spec{Name: "t", IntentID: "a{}"}, "names nothing"},
		"template without components": {Spec{Name: "t", IntentID: "refund"}, "has no placeholder"},
		"template, unknown argument":  {Spec{Name: "t", IntentID: "{order_di}", Arguments: map[string]Argument{"order_id": identity}}, `did you mean "order_id"?`},
		"template, free argument":     {Spec{Name: "t", IntentID: "{a}", Arguments: map[string]Argument{"a": {Kind: KindFree}}}, "{a} is free text"},
		"template, material argument": {Spec{Name: "t", IntentID: "{a}", Arguments: map[string]Argument{"a": {}}}, "{a} is material"},
		"template, whole amount":      {Spec{Name: "t", IntentID: "{a}", Arguments: map[string]Argument{"a": {Kind: KindIdentity, Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Code: "EUR"}}}}}}, "write {a.minor}"},
		"template, part of no amount": {Spec{Name: "t", IntentID: "{a.minor}", Arguments: map[string]Argument{"a": identity}}, "which is not an amount"},
		"template not injective":      {Spec{Name: "t", IntentID: "{a}-{b}", Arguments: map[string]Argument{"a": identity, "b": identity}}, "does not keep {a} and {b} apart"},
		"template, nameless metadata": {Spec{Name: "t", IntentID: "{meta.}"}, "names no metadata"},
		"identity outside intent id":  {Spec{Name: "t", Arguments: map[string]Argument{"a": identity}}, "arguments.a.kind: is identity and not in intent_id"},
		"resource of free text":       {Spec{Name: "t", Resource: "{a}", Arguments: map[string]Argument{"a": {Kind: KindFree}}}, "resource: {a} is free text"},
		"twins on unknown":            {Spec{Name: "t", Twins: Twins{On: []string{"amout"}}, Arguments: map[string]Argument{"amount": {}}}, `twins.on: "amout" is not an argument that the policy names (did you mean "amount"?)`},
		"twins on free":               {Spec{Name: "t", Twins: Twins{On: []string{"a"}}, Arguments: map[string]Argument{"a": {Kind: KindFree}}}, "twins.on: "},
		"twins do what":               {Spec{Name: "t", Twins: Twins{Do: "block"}}, "twins.do: "},
		"total below one call":        {Spec{Name: "t", Timeout: Duration(3600e9), Retry: Retry{Within: Duration(60e9)}}, "retry.within: "},
		"backoff over its maximum":    {Spec{Name: "t", Retry: Retry{Backoff: Duration(3600e9)}}, "retry.backoff: "},
		"heartbeat over the lease":    {Spec{Name: "t", Lease: Lease{Heartbeat: Duration(3600e9)}}, "lease.heartbeat: "},
		"window below the call":       {Spec{Name: "t", Contract: &Effect{Keyed: true, Retention: Duration(1e9)}}, "contract.retention: the provider forgets the key"},
		"one_of of free text":         {Spec{Name: "t", Arguments: map[string]Argument{"a": {Kind: KindFree, OneOf: values(`"x"`)}}}, "arguments.a.one_of: a free argument"},
		"one_of of an amount":         {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Code: "EUR"}}}, OneOf: values(`"480"`)}}}, "arguments.a.one_of: an amount"},
		"one_of never left":           {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("upper"), OneOf: values(`"eur"`)}}}, `arguments.a.one_of: "eur" is never what the normalisers leave: write "EUR"`},
		"one_of refused":              {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("currency"), OneOf: values(`"EURO"`)}}}, `arguments.a.one_of: "EURO" is refused by the normalisers`},
		"one_of number for an id":     {Spec{Name: "t", IntentID: "{a}", Arguments: map[string]Argument{"a": {Kind: KindIdentity, OneOf: values(`1`)}}}, `arguments.a.one_of: 1 is never what the normalisers leave: write "1"`},
		"one_of number for a capture": {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: []Normaliser{{Name: "capture", Argument: "a(b)"}}, OneOf: values(`1`)}}}, "arguments.a.one_of: 1 is never what capture leaves"},
		"one_of null":                 {Spec{Name: "t", Arguments: map[string]Argument{"a": {OneOf: values(`null`)}}}, "arguments.a.one_of: null is no single value"},
		"one_of a list":               {Spec{Name: "t", Arguments: map[string]Argument{"a": {OneOf: values(`["x"]`)}}}, "is no single value"},
		"one_of beyond a double":      {Spec{Name: "t", Arguments: map[string]Argument{"a": {OneOf: values(`9007199254740993`)}}}, "has no canonical form"},
		"one_of twice":                {Spec{Name: "t", Arguments: map[string]Argument{"a": {OneOf: values(`1`, `1.0`)}}}, "arguments.a.one_of: 1 is named twice"},
		"default outside one_of":      {Spec{Name: "t", Arguments: map[string]Argument{"a": {Normalise: steps("upper"), Default: json.RawMessage(`"usd"`), OneOf: values(`"EUR"`)}}}, `arguments.a.default: is not in one_of: use one of "EUR"`},
		"retention without key":       {Spec{Name: "t", Contract: &Effect{Retention: Duration(3600e9)}}, "contract.retention: "},
		"lag without look-up":         {Spec{Name: "t", Contract: &Effect{Lag: new(Duration)}}, "contract.lag: "},
	}
	for name, c := range cases {
		tool, problems := Compile(c.spec)
		if len(problems) == 0 {
			t.Errorf("%s: accepted", name)
			continue
		}
		if tool != nil {
			t.Errorf("%s: a tool and problems", name)
		}
		if !strings.Contains(problems[0].String(), c.want) {
			t.Errorf("%s: got %q, want %q in it", name, problems[0], c.want)
		}
		for _, p := range problems {
			if p.Remedy == "" || p.Detail == "" || len(p.Path) == 0 {
				t.Errorf("%s: %+v lacks something", name, p)
			}
		}
	}
}

func TestCallTemplatesMayOnlyNameWhatMayBeSent(t *testing.T) {
	t.Parallel()
	spec := refund()
	spec.Arguments["address"] = Argument{Kind: KindMaterial}
	reference := References(spec)
	for _, name := range []string{"order_id", "address.city", "address[0]", "amount", "amount.minor", "amount.decimal", "amount.currency", "currency"} {
		if detail, _ := reference(name); detail != "" {
			t.Errorf("{%s}: %s", name, detail)
		}
	}
	for name, want := range map[string]string{
		"reason": "free text", "amount.cents": "no part", "order_id.x": "one value", "amuont": "did you mean",
		"meta.run": "not sent", "idempotency_key": "never sent", "reason.x": "free text",
	} {
		if detail, remedy := reference(name); !strings.Contains(detail, want) || remedy == "" {
			t.Errorf("{%s}: %q, %q", name, detail, remedy)
		}
	}
}
