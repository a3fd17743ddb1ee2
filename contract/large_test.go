package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A large request costs time that grows with it, and not with its square: whoever sends it must not stop the others.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	const n = 100_000
	var members strings.Builder
	for i := range n {
		fmt.Fprintf(&members, `"k%d":%d,`, i, i)
	}
	for name, r := range map[string]Request{
		"many members":       sent("POST", "/j/1/pays", asJSON, `{`+members.String()+`"z":1}`),
		"many block strings": sent("POST", "/graphql", asJSON, `{"query":"mutation { pay(a: [`+strings.Repeat(`\"\"\"\"\"\"`, n)+`]) { id } }"}`),
		"many brackets":      sent("POST", "/graphql", asJSON, `{"query":"mutation { pay(a: `+strings.Repeat("[", n)+strings.Repeat("]", n)+`) { id } }"}`),
		"many fields":        sent("POST", "/f", asForm, strings.Repeat("a=1&", n)+"Action=Run"),
		"many spellings":     sent("POST", "/j/1/pays", asJSON, `{"ENFORCE":1,"Enforce":1,"eNforce":1,"enForce":1,"enfOrce":1}`),
	} {
		start := time.Now()
		o, ok := c.Match(r)
		if !ok {
			t.Errorf("%s: not matched", name)
			continue
		}
		_, businessErr := o.Business(r)
		_, err := o.Inject(r, "K", "S", start)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
		if (err != nil) != (name == "many spellings") || businessErr != nil {
			t.Errorf("%s: %v, %v", name, err, businessErr)
		}
	}
}
