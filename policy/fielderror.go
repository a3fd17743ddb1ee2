package policy

import (
	"errors"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// fieldError turns a canon error about a field into the project's error, with the path that a caller can find.
func fieldError(field string, err error) error {
	var e *canon.Error
	if !errors.As(err, &e) {
		return &effectonce.Error{Code: effectonce.CodeInternal, Field: field, Cause: err}
	}
	if e.Path != "" {
		names := strings.ReplaceAll(strings.TrimPrefix(e.Path, "/"), "/", ".")
		field += "." + strings.ReplaceAll(strings.ReplaceAll(names, "~1", "/"), "~0", "~")
	}
	const fieldBytesMax = 200
	if len(field) > fieldBytesMax {
		field = strings.ToValidUTF8(field[:fieldBytesMax], "") + "..."
	}
	return &effectonce.Error{Code: codeOf(e.Problem), Field: field, Detail: e.Detail, Remedy: e.Remedy}
}

// componentError is fieldError for a component of a template, which is incomplete if it is empty (S3.3).
func componentError(field string, err error) error {
	var e *canon.Error
	if errors.As(err, &e) && e.Problem == canon.ProblemEmpty {
		return &effectonce.Error{Code: effectonce.CodeIntentIncomplete, Field: field, Detail: "is missing or empty", Remedy: "give it: the intent is identified by it"}
	}
	return fieldError(field, err)
}

func codeOf(p canon.Problem) effectonce.Code {
	switch p {
	case canon.ProblemWrongType, canon.ProblemNotNormalisable, canon.ProblemUnknownCurrency, canon.ProblemUnknownName, canon.ProblemEmpty:
		return effectonce.CodeInvalid
	}
	return effectonce.CodeNotCanonical
}
