// Package config reads effectonce.yaml: where the daemon listens and stores, the providers it may call, and the tools
// with their policies.
//
// A file is checked whole: every problem is reported at once, with file, line, column, field and remedy ([Problems]).
// What is not known is refused rather than ignored, since a misspelt field would be a rule that does not hold. Secrets are
// references (env:NAME, file:path), never values.
//
// Every field is described in docs/configuration.md; a test compares that page with the structs of file.go.
//
// A [Config] is not changed after [Config.KeepIdentities], and then safe for concurrent use. The API is unstable.
package config
