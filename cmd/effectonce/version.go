package main

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release; otherwise it comes from the build's own record.
var version string

type versionCommand struct{}

func (versionCommand) Run(c *terminal) error {
	v := versionName()
	if c.json {
		return c.show(map[string]string{"version": v, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	c.say("effectonce %s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

func versionName() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
