package provider

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// digestsMax bounds how many credentials of callers are remembered by their digest.
const digestsMax = 1000

// digests remembers the digests of credentials, which are slow to compute.
type digests struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]string
}

func (d *digests) of(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	d.mu.Lock()
	found, ok := d.known[sum]
	d.mu.Unlock()
	if ok {
		return found
	}
	found = credentialDigest(secret)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= digestsMax {
		d.known = map[[sha256.Size]byte]string{}
	}
	d.known[sum] = found
	return found
}

// callersToken is what tells callers apart by whose account they act for: all their secrets. Each of them may be the one that the provider
// goes by, whatever else a gateway in between asks for.
func callersToken(secrets http.Header) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		all = append(all, name+": "+strings.Join(secrets[name], ", "))
	}
	return strings.Join(all, "\n")
}

// secretsIn lists what must not show in anything that is kept or logged.
func secretsIn(held string, callers http.Header) []string {
	list := strings.Split(held, ":")
	list = append(list, held)
	for _, values := range callers {
		for _, v := range values {
			_, word, found := strings.Cut(v, " ")
			if !found {
				word = v
			}
			list = append(list, v, word)
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < 8 })
}
