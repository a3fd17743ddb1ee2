package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// documentFormat is the version of the document's form. It changes only if an old document would be read differently.
const documentFormat = 1

type document struct {
	Format int  `json:"format"`
	Policy Spec `json:"policy"`
	// Formerly are the versions with earlier identities (S3.12).
	Formerly []string `json:"formerly,omitempty"`
}

func documentOf(spec Spec, formerly []string) ([]byte, error) {
	plain, err := json.Marshal(document{Format: documentFormat, Policy: spec, Formerly: formerly})
	if err != nil {
		return nil, err
	}
	v, err := canon.Decode(plain, canon.DefaultLimits)
	if err != nil {
		return nil, err
	}
	return canon.Encode(v)
}

func versionOf(doc []byte) string { return canon.Digest(sha256.Sum256(doc)).String() }

// FromDocument rebuilds a tool from what [Tool.Document] returned, in this or an earlier release (S3.11). A document that
// it cannot read whole is an [effectonce.CodePolicyGone]: to guess at a part of a policy would change what is allowed.
func FromDocument(doc []byte) (*Tool, error) {
	gone := func(detail string, cause error) error {
		return &effectonce.Error{Code: effectonce.CodePolicyGone, Field: "policy", Detail: detail,
			Remedy: "use the release that wrote it, or a newer one", Cause: cause}
	}
	if _, err := canon.Decode(doc, canon.DefaultLimits); err != nil {
		return nil, gone("the stored policy is not readable", err)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, gone("the stored policy is not readable", err)
	}
	if d.Format != documentFormat {
		return nil, gone(fmt.Sprintf("the stored policy has format %d, and this release reads %d", d.Format, documentFormat), nil)
	}
	t, problems := Compile(d.Policy)
	if len(problems) > 0 {
		return nil, gone("the stored policy is not valid here: "+problems[0].String(), nil)
	}
	// What was stored keeps its own version, also if a release writes the same policy in another form.
	t.document, t.Version, t.formerly = bytes.Clone(doc), versionOf(doc), d.Formerly
	return t, nil
}
