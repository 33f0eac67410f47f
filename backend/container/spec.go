package container

import (
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/container/guest"
	"helix/backend/fault"
)

// user is who every program in a container runs as, whatever its image says: nobody.
const user = "65534:65534"

// nobody is the number of that user.
const nobody = guest.Nobody

// The labels of containers.
const (
	labelOwner    = "helix.owner"
	labelInstance = "helix.instance"
	labelRun      = "helix.run"
	labelDeadline = "helix.deadline" // Unix seconds
)

// Limits of one run. A zero field means the default.
type Limits struct {
	Wall         time.Duration `json:"-"`
	MemoryBytes  int64         `json:"memoryBytes,omitempty"`
	StorageBytes int64         `json:"storageBytes,omitempty"` // largest file that can be written
	OutputBytes  int64         `json:"outputBytes,omitempty"`
	LogBytes     int64         `json:"logBytes,omitempty"`   // of standard error, the end is kept
	CPUPercent   int           `json:"cpuPercent,omitempty"` // of one core
	Pids         int           `json:"pids,omitempty"`
	NoFile       int           `json:"noFile,omitempty"` // open files of a process
}

// maxProcesses is the limit of processes of the user of all containers. The one of a container is Pids; this one
// is set because Podman's own default may be higher than its process may set.
const maxProcesses = 4096

// maxWall is the longest time of a run.
const maxWall = 10 * time.Minute

// MaxInput is the largest input of a run.
const MaxInput = 4 << 20

// Defaults returns the limits of a run that sets none.
func Defaults() Limits {
	return Limits{Wall: 30 * time.Second, MemoryBytes: 256 << 20, StorageBytes: 100 << 20, OutputBytes: 1 << 20, LogBytes: 64 << 10, CPUPercent: 50, Pids: 64, NoFile: 1024}
}

// WithDefaults fills in defaults, or returns an error for a limit out of range.
func (l Limits) WithDefaults() (Limits, error) {
	d := Defaults()
	for _, f := range []struct {
		name             string
		value            *int64
		def, lowest, top int64
	}{
		{"memoryBytes", &l.MemoryBytes, d.MemoryBytes, 16 << 20, 16 << 30},
		{"storageBytes", &l.StorageBytes, d.StorageBytes, 1 << 10, 16 << 30},
		{"outputBytes", &l.OutputBytes, d.OutputBytes, 1 << 10, 16 << 20},
		{"logBytes", &l.LogBytes, d.LogBytes, 1 << 10, 1 << 20},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < f.lowest || *f.value > f.top {
			return l, fault.InvalidField(f.name, fault.CodeRange, "%s must be from %d to %d.", f.name, f.lowest, f.top)
		}
	}
	for _, f := range []struct {
		name             string
		value            *int
		def, lowest, top int
	}{
		{"cpuPercent", &l.CPUPercent, d.CPUPercent, 1, 1600},
		{"pids", &l.Pids, d.Pids, 24, 4096},
		{"noFile", &l.NoFile, d.NoFile, 32, 65536},
	} {
		if *f.value == 0 {
			*f.value = f.def
		}
		if *f.value < f.lowest || *f.value > f.top {
			return l, fault.InvalidField(f.name, fault.CodeRange, "%s must be from %d to %d.", f.name, f.lowest, f.top)
		}
	}
	if l.Wall == 0 {
		l.Wall = d.Wall
	}
	if l.Wall < time.Second || l.Wall > maxWall {
		return l, fault.InvalidField("timeoutSeconds", fault.CodeRange, "The time limit must be from 1 to 600 seconds.")
	}
	return l, nil
}

// Spec is one run. It has no field that would weaken the isolation.
type Spec struct {
	Name    string   // of what runs, for Status
	ImageID string   // sha256:…; an image is never pulled for a run
	Argv    []string // empty: what the image starts
	Env     []string // NAME=value, added to that of the image
	Input   []byte   // standard input, which is closed after it
	Limits  Limits
	RunID   uuid.UUID
	// Egress makes the connections of the program; nil: it has no network.
	Egress Egress
	// Contacted is called at the end of each connection; nil: nothing is.
	Contacted func(Contact)
	// Volume is where the program keeps files between its runs; nil: nowhere.
	Volume *Volume
	// Operation is passed as HELIX_OPERATION; "": nothing is.
	Operation string
	// Phase is called when the run enters a phase; nil: nothing is.
	Phase func(phase string)
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

// mount is a file, a folder or a volume that a container sees.
type mount struct {
	Type          string // bind or volume
	Source        string
	Target        string
	ReadOnly      bool
	BindOptions   *bindOptions   `json:",omitempty"`
	VolumeOptions *volumeOptions `json:",omitempty"`
}

type volumeOptions struct{ NoCopy bool }

type bindOptions struct{ Propagation string }

func bind(source, target string, readOnly bool) mount {
	return mount{Type: "bind", Source: source, Target: target, ReadOnly: readOnly, BindOptions: &bindOptions{"rprivate"}}
}

// volume is a volume as it is. Docker would copy the image's folder, and its owner, into an empty one.
func volume(name, target string) mount {
	return mount{Type: "volume", Source: name, Target: target, VolumeOptions: &volumeOptions{NoCopy: true}}
}

type logConfig struct{ Type string }

type hostConfig struct {
	NetworkMode      string
	ReadonlyRootfs   bool
	CapDrop          []string
	CapAdd           []string
	SecurityOpt      []string
	Memory           int64
	MemorySwap       int64
	MemorySwappiness *int64 `json:",omitempty"`
	CPUPeriod        int64  `json:"CpuPeriod"`
	CPUQuota         int64  `json:"CpuQuota"`
	PidsLimit        int64
	Ulimits          []ulimit
	Tmpfs            map[string]string
	ShmSize          int64
	IpcMode          string
	PidMode          string
	UTSMode          string
	UsernsMode       string
	Privileged       bool
	Mounts           []mount
	Devices          []struct{}
	LogConfig        logConfig
	Runtime          string `json:",omitempty"`
}

type createBody struct {
	Image           string
	User            string
	Entrypoint      []string `json:",omitempty"`
	Cmd             []string
	Env             []string
	WorkingDir      string
	AttachStdin     bool
	AttachStdout    bool
	AttachStderr    bool
	OpenStdin       bool
	StdinOnce       bool
	NetworkDisabled bool
	Labels          map[string]string
	Healthcheck     struct{ Test []string }
	HostConfig      hostConfig
}

// body returns the request that creates a container. The program of the container is added later.
func (e *Engine) body(image string, l Limits, run uuid.UUID, kind string, deadline time.Time) createBody {
	b := createBody{
		Image: image, User: user, WorkingDir: "/", NetworkDisabled: true,
		Labels: map[string]string{labelOwner: e.owner, labelInstance: e.instance, labelRun: run.String(), labelDeadline: strconv.FormatInt(deadline.Unix(), 10)},
		HostConfig: hostConfig{
			NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			Memory: l.MemoryBytes, MemorySwap: l.MemoryBytes, CPUPeriod: 100_000, CPUQuota: int64(l.CPUPercent) * 1000, PidsLimit: int64(l.Pids),
			Ulimits: []ulimit{{"nofile", int64(l.NoFile), int64(l.NoFile)}, {"core", 0, 0}, {"nproc", maxProcesses, maxProcesses}, {"fsize", l.StorageBytes, l.StorageBytes}},
			Tmpfs:   map[string]string{"/tmp": "rw,noexec,nosuid,nodev,size=67108864,mode=1777"},
			ShmSize: 16 << 20, IpcMode: "private", LogConfig: logConfig{"none"},
		},
	}
	b.Healthcheck.Test = []string{"NONE"}
	if kind == "docker" {
		none := int64(0)
		b.HostConfig.MemorySwappiness = &none
		b.HostConfig.Tmpfs["/tmp"] += ",uid=65534,gid=65534" // runc takes the mode from the folder of the image
	}
	return b
}

// inspection is what the engine says about a container.
type inspection struct {
	ID     string `json:"Id"`
	Image  string
	Config struct {
		User   string
		Labels map[string]string
	}
	HostConfig hostConfig
	State      struct {
		Running   bool
		OOMKilled bool
		ExitCode  int
		Error     string
	}
	Mounts []struct {
		Type, Source, Destination string
		RW                        *bool
	}
}

// mismatch returns the first field in which the engine created something weaker than was asked; "": none.
func (x *inspection) mismatch(want *createBody) string {
	h, w := &x.HostConfig, &want.HostConfig
	mounts := true // exactly those that were asked for
	for _, m := range x.Mounts {
		mounts = mounts && (m.Type == "tmpfs" || slices.ContainsFunc(w.Mounts, func(a mount) bool {
			return a.Target == m.Destination && a.Type == m.Type && (a.Type == "volume" || a.Source == m.Source) && (m.RW == nil || !a.ReadOnly || !*m.RW)
		}))
	}
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"User", x.Config.User == want.User},
		{"NetworkMode", h.NetworkMode == "none"},
		{"ReadonlyRootfs", h.ReadonlyRootfs},
		{"Privileged", !h.Privileged},
		{"CapAdd", len(h.CapAdd) == len(w.CapAdd)},
		{"CapDrop", len(h.CapDrop) > 0},
		{"SecurityOpt", hasNoNewPrivileges(h.SecurityOpt)},
		{"Memory", h.Memory == w.Memory},
		{"MemorySwap", h.MemorySwap == w.MemorySwap},
		{"PidsLimit", h.PidsLimit == w.PidsLimit},
		{"CpuQuota", h.CPUQuota == w.CPUQuota},
		{"PidMode", h.PidMode == "" || h.PidMode == "private"},
		{"IpcMode", h.IpcMode == "" || h.IpcMode == "private" || h.IpcMode == "shareable"}, // Podman's word for its own
		{"UTSMode", h.UTSMode != "host"},
		{"UsernsMode", h.UsernsMode != "host"},
		{"Devices", len(h.Devices) == 0},
		{"Mounts", mounts},
	} {
		if !f.ok {
			return f.name
		}
	}
	return ""
}

func hasNoNewPrivileges(options []string) bool {
	ok := false
	for _, o := range options {
		switch o {
		case "no-new-privileges", "no-new-privileges:true", "no-new-privileges=true":
			ok = true
		case "seccomp=unconfined", "seccomp:unconfined", "label=disable":
			return false
		}
	}
	return ok
}
