package guest

// The types of messages.
const (
	TypeHello  = "hello"  // init: it is ready; Report says where it runs
	TypeStart  = "start"  // Helix: run a program
	TypeKill   = "kill"   // Helix: end a program and what it started
	TypeExit   = "exit"   // init: a program has ended
	TypeDial   = "dial"   // init: a program connected to the proxy; ID is the stream
	TypeCredit = "credit" // the reader of a stream takes more
	TypeEOF    = "eof"    // no more data follows on a stream
	TypeStop   = "stop"   // a stream is not read any more
)

// Ready is what init writes to the console of a virtual machine.
const Ready = "GUEST-READY"

// Version of the protocol. The init process and Helix are of one build, so they agree unless a file was replaced.
const Version = 1

// Paths in a container.
const (
	Folder     = "/.helix"
	InitPath   = Folder + "/init"
	SocketPath = Folder + "/s"
	DataPath   = "/data"  // where the state of a tool is
	ProxyPort  = 3128     // on 127.0.0.1
	SocketArg  = "socket" // init connects to SocketPath
	AttachArg  = "attach" // init uses its standard input and output
	SourcePath = "/from"  // what CopyArg copies
	OwnArg     = "own"    // init gives DataPath to the user of containers and ends
	BootArg    = "boot"   // init is the first process of a virtual machine: it writes Ready and its report, and ends the machine
	CopyArg    = "copy"   // init replaces what is in DataPath by what is in SourcePath and ends
)

// Nobody is the number of the user of containers, and of its group.
const Nobody = 65534

// DialStreams is the lowest number of a stream that the init process opens.
const DialStreams = 1 << 31

// Message is one message. Which fields are set depends on the type.
type Message struct {
	Type   string  `json:"type"`
	ID     uint32  `json:"id,omitempty"` // of a program or stream
	Report *Report `json:"report,omitempty"`
	Start  *Start  `json:"start,omitempty"`
	Exit   *Exit   `json:"exit,omitempty"`
	Credit int     `json:"credit,omitempty"`
}

// The streams of the program with the given number.

// Stdin returns the number of the stream of its standard input.
func Stdin(id uint32) uint32 { return id*4 + 1 }

// Stdout returns the number of the stream of its standard output.
func Stdout(id uint32) uint32 { return id*4 + 2 }

// Stderr returns the number of the stream of its standard error.
func Stderr(id uint32) uint32 { return id*4 + 3 }

// Start asks for a program.
type Start struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // all of it
	Dir  string   `json:"dir"`
	// WallMs ends it after that time; 0: nothing does.
	WallMs int64 `json:"wallMs,omitempty"`
	// Alone ends every other process of the container when the program ends.
	Alone bool `json:"alone,omitempty"`
	// Proxy relays connections to 127.0.0.1:ProxyPort to Helix.
	Proxy bool `json:"proxy,omitempty"`
	// DataBytes ends it when DataPath holds more; 0: there is no such limit.
	DataBytes int64 `json:"dataBytes,omitempty"`
}

// Why a program ended, other than by itself.
const (
	EndedByWall    = "wall"
	EndedByKill    = "kill"
	EndedByStorage = "storage"
)

// Exit is how a program ended.
type Exit struct {
	Code    int    `json:"code"`              // 128 + signal if a signal ended it
	Ended   string `json:"ended,omitempty"`   // why, if not by itself
	Missing string `json:"missing,omitempty"` // why it could not be started: not found, or not executable
	OOM     bool   `json:"oom,omitempty"`     // the kernel ended a process of the container for memory
	Usage   Usage  `json:"usage"`
}

// Usage is what a program and what it started used.
type Usage struct {
	CPUMicros  int64 `json:"cpuMicros"`
	PeakMemory int64 `json:"peakMemory"`
	DiskBytes  int64 `json:"diskBytes,omitempty"` // of DataPath at the end
	Samples    int   `json:"samples"`             // how often memory was measured
}

// Report is what the init process sees of its container. A value of -1 could not be read.
type Report struct {
	Version    int      `json:"version"`
	UID        int      `json:"uid"`
	GID        int      `json:"gid"`
	CapEff     string   `json:"capEff"`
	CapBnd     string   `json:"capBnd"`
	NoNewPrivs int      `json:"noNewPrivs"`
	Seccomp    int      `json:"seccomp"` // 2: a filter is in effect
	RootMount  string   `json:"rootMount"`
	Interfaces []string `json:"interfaces"`
	NoFile     int64    `json:"noFile"`
	Core       int64    `json:"core"`
	FileSize   int64    `json:"fileSize"`
	Cgroup     int      `json:"cgroup"` // version
	Memory     int64    `json:"memory"`
	Swap       int64    `json:"swap"` // beyond memory
	Pids       int64    `json:"pids"`
	CPUPercent int64    `json:"cpuPercent"`
	PID        int      `json:"pid"`
}
