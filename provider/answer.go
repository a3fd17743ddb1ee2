package provider

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// digestBytesMax is how much of an answer that is too large to keep is read for its digest.
const digestBytesMax = 64 << 20

// answer is a response body as far as it is kept.
type answer struct {
	body []byte
	// beginning says that body is only the beginning; digest is then that of the whole, zero if that was too much to read.
	beginning bool
	digest    canon.Digest
	// raw are the bytes as they came, compressed perhaps; nil where they were too many. Only [readRaw] has them.
	raw []byte
}

// rawBytesMax bounds an answer that is given back as it came.
const rawBytesMax = 8 << 20

// readRaw reads a body as it came, and decodes it for whoever judges it.
func readRaw(r *http.Response) (answer, error) {
	kept, err := io.ReadAll(io.LimitReader(r.Body, rawBytesMax+1))
	if err != nil {
		return answer{}, err
	}
	rest := r.Body
	decoded := *r
	decoded.Body = io.NopCloser(bytes.NewReader(kept))
	if len(kept) <= rawBytesMax {
		a, err := readAnswer(&decoded, rawBytesMax)
		a.raw = kept
		if a.raw == nil {
			a.raw = []byte{}
		}
		return a, err
	}
	decoded.Body = io.NopCloser(io.MultiReader(bytes.NewReader(kept), rest))
	return readAnswer(&decoded, effectonce.ResultBytesMax)
}

// readAnswer reads a body of which at most limit bytes are kept. The error is that it could not be read to its end.
func readAnswer(r *http.Response, limit int) (answer, error) {
	body := io.Reader(r.Body)
	if !r.Uncompressed {
		switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
		case "", "identity":
		case "gzip", "x-gzip":
			unzipped, err := gzip.NewReader(r.Body)
			if err != nil {
				return answer{}, fmt.Errorf("the answer is not gzip")
			}
			body = unzipped
		default:
			return answer{}, errors.New("the answer has an unknown content encoding")
		}
	}
	kept, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return answer{}, err
	}
	if len(kept) <= limit {
		return answer{body: kept}, nil
	}
	a := answer{body: kept[:limit], beginning: true}
	whole := sha256.New()
	whole.Write(kept)
	n, err := io.Copy(whole, io.LimitReader(body, digestBytesMax+1))
	if err != nil {
		return answer{}, err
	}
	if n <= digestBytesMax {
		a.digest = canon.Digest(whole.Sum(nil))
	}
	return a, nil
}

// unknown, and notSent below, are ends that no answer decided.
func unknown(code, message string) effectonce.End {
	return effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: code, Message: message}}
}

func notSent(code, message string) effectonce.End {
	return effectonce.End{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: code, Message: message}}
}

// redact takes the credential out of a text that a provider or a transport wrote.
func redact(s, secret string) string {
	if len(secret) < 4 {
		return s
	}
	return strings.ReplaceAll(s, secret, "[credential]")
}
