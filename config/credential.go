package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// credential is a reference to a secret (S3.10). The secret itself is read each time it is used, so that a rotated file
// counts at once, and is in no struct, log or error.
type credential struct {
	form string // "env" or "file"; "" where there is none
	name string
	env  func(string) (string, bool)
	// lines says that the secret may have several lines, as a credentials file of NATS has.
	lines bool
}

var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretBytesMax bounds a secret.
const secretBytesMax = 16 << 10

// parseCredential reads a reference. Its error never has the text, which may be a secret that somebody wrote in clear.
func parseCredential(text, dir string, env func(string) (string, bool)) (credential, error) {
	form, name, _ := strings.Cut(text, ":")
	switch {
	case form == "env" && environmentName.MatchString(name):
		return credential{form: form, name: name, env: env}, nil
	case form == "env":
		return credential{}, errors.New("does not name an environment variable")
	case form == "file" && name != "":
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return credential{form: form, name: name}, nil
	}
	return credential{}, errors.New("is not a reference to a secret; secrets in clear are refused")
}

// read returns the secret.
func (r credential) read(context.Context) (string, error) {
	var secret string
	switch r.form {
	case "":
		return "", nil
	case "env":
		value, ok := r.env(r.name)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", r.name)
		}
		secret = value
	case "file":
		b, err := readBounded(r.name, secretBytesMax)
		if err != nil {
			return "", err
		}
		secret = string(b)
	}
	secret = strings.TrimRight(secret, "\r\n")
	if strings.TrimSpace(secret) == "" {
		return "", fmt.Errorf("%s:%s is empty", r.form, r.name)
	}
	if !r.lines && strings.ContainsFunc(secret, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return "", fmt.Errorf("%s:%s holds control characters or several lines", r.form, r.name)
	}
	return secret, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", path, cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("the file %s is larger than %d bytes", path, limit)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the file %s cannot be read: %w", path, cause(err))
	}
	return b, nil
}

// cause leaves out what os repeats of the path.
func cause(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
