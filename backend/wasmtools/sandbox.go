package wasmtools

import (
	"context"
	"reflect"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/sandbox"
)

// SandboxStatus is the status of the engine, with the limits of runs.
type SandboxStatus struct {
	sandbox.Status
	MinIsolation string           `json:"minIsolation"` // the setting: weakest isolation under which untrusted modules may run
	Isolation    string           `json:"isolation"`    // of untrusted modules on this computer
	Reasons      []string         `json:"reasons"`      // why it is not stronger, such as bwrap_missing
	Profiles     []SandboxProfile `json:"profiles"`     // limits by profile, most restrictive first
}

// SandboxProfile is a named set of limits for a run.
type SandboxProfile struct {
	Name string `json:"name"` // strict, standard, permissive or wasm
	SkillLimits
	Fuel       uint64 `json:"fuel"` // units of work
	StackBytes int64  `json:"stackBytes"`
}

// SkillLimits are the limits of a run.
type SkillLimits struct {
	WallMs      int64 `json:"wallMs"`
	CPUMs       int64 `json:"cpuMs"`
	MemoryBytes int64 `json:"memoryBytes"`
	InputBytes  int64 `json:"inputBytes"`
	OutputBytes int64 `json:"outputBytes"`
	LogBytes    int64 `json:"logBytes"`
	HostCalls   int   `json:"hostCalls"`
}

// SandboxChanged is published when the state of the sandbox changes.
type SandboxChanged struct {
	Status SandboxStatus `json:"status"`
}

// ClearedCache describes what was removed with the cache.
type ClearedCache struct {
	Bytes   int64 `json:"bytes"`
	Modules int   `json:"modules"`
}

// SandboxStatus returns the status of the engine that runs untrusted code: its version, tiers, pool
// and cache, and the limits of each profile.
func (s *Service) SandboxStatus(context.Context, struct{}) (SandboxStatus, error) {
	return s.sandboxStatus(), nil
}

func (s *Service) sandboxStatus() SandboxStatus {
	out := SandboxStatus{Status: s.box.Status(), MinIsolation: s.setting, Profiles: []SandboxProfile{}}
	out.Isolation, out.Reasons = Isolation(out.Status)
	for _, name := range sandbox.ProfileNames {
		l, _ := sandbox.Profile(name)
		out.Profiles = append(out.Profiles, SandboxProfile{Name: name, SkillLimits: WireLimits(l), Fuel: l.Fuel, StackBytes: l.StackBytes})
	}
	return out
}

// SandboxClearCache deletes compiled code that is kept between starts. Active runs continue; the
// next start of each module compiles it again.
func (s *Service) SandboxClearCache(context.Context, struct{}) (ClearedCache, error) {
	before := s.box.Status().Cache
	if err := s.box.ClearCache(); err != nil {
		return ClearedCache{}, err
	}
	after := s.box.Status().Cache
	bus.Publish(s.db.Bus(), uuid.Nil, SandboxChanged{s.sandboxStatus()})
	return ClearedCache{Bytes: max(0, before.Bytes-after.Bytes), Modules: max(0, before.Modules-after.Modules)}, nil
}

// sandboxWatchEvery is the interval at which the state of the sandbox is checked.
const sandboxWatchEvery = 5 * time.Second

// WatchSandbox publishes SandboxChanged when the state of the sandbox has changed, until ctx ends.
func (s *Service) WatchSandbox(ctx context.Context) error {
	t := time.NewTicker(sandboxWatchEvery)
	defer t.Stop()
	last := s.sandboxStatus()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if now := s.sandboxStatus(); !reflect.DeepEqual(now, last) {
			last = now
			bus.Publish(s.db.Bus(), uuid.Nil, SandboxChanged{now})
		}
	}
}

// WireLimits converts limits to their wire form.
func WireLimits(l sandbox.Limits) SkillLimits {
	return SkillLimits{
		WallMs: l.Wall.Milliseconds(), CPUMs: l.CPU.Milliseconds(), MemoryBytes: l.MemoryBytes, InputBytes: l.InputBytes,
		OutputBytes: l.OutputBytes, LogBytes: l.LogBytes, HostCalls: l.HostCalls,
	}
}
