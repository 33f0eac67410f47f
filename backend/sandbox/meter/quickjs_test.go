package meter

import (
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// kernels are the programs for measuring the cost of the meter. Each ends in a string.
var kernels = []struct{ name, source string }{
	{"fib30", `function fib(n){return n<2?n:fib(n-1)+fib(n-2)} String(fib(30))`},
	{"json1mb", `var a=[];for(var i=0;i<9000;i++)a.push({id:i,name:"item number "+i,tags:["a","b","c"],value:i*1.5,nested:{on:true,off:null,text:"some \"quoted\" text\n"}});
		var s=JSON.stringify(a),n=0;for(var k=0;k<3;k++)n+=JSON.stringify(JSON.parse(s)).length;String(n)`},
	{"regex", `var t="";for(var i=0;i<4000;i++)t+="user"+i+"@example.com, phone 0"+(i*7919)+"; ";
		var n=0,m,re=/([a-z0-9]+)@([a-z]+)\.com|phone (\d{3,})/g;for(var k=0;k<4;k++){re.lastIndex=0;while((m=re.exec(t)))n+=m[0].length}String(n)`},
	{"sort100k", `var x=42,a=[];for(var i=0;i<100000;i++){x=(x*1103515245+12345)&0x7fffffff;a.push(x)}a.sort(function(p,q){return p-q});String(a[0]+a[50000]+a[99999])`},
	{"nbody", `function B(x,y,z,vx,vy,vz,m){this.x=x;this.y=y;this.z=z;this.vx=vx;this.vy=vy;this.vz=vz;this.m=m}
		var P=3.141592653589793,S=4*P*P,D=365.24,b=[new B(0,0,0,0,0,0,S),new B(4.84143144246472090,-1.16032004402742839,-.103622044471123109,.00166007664274403694*D,.00769901118419740425*D,-.0000690460016972063023*D,.000954791938424326609*S),
		new B(8.34336671824457987,4.12479856412430479,-.403523417114321381,-.00276742510726411899*D,.00499852801234917238*D,.0000230417297573763929*D,.000285885980666130812*S),
		new B(12.8943695621391310,-15.1111514016986312,-.223307578892655734,.00296460137564761618*D,.00237847173959480950*D,-.0000296589568540237556*D,.0000436624404335156298*S),
		new B(15.3796971148509165,-25.9193146099879641,.179258772950371181,.00268067772490389322*D,.00162824170038242295*D,-.0000951592254519715870*D,.0000515138902046611451*S)];
		function adv(dt){for(var i=0;i<5;i++){var p=b[i];for(var j=i+1;j<5;j++){var q=b[j],dx=p.x-q.x,dy=p.y-q.y,dz=p.z-q.z,d=dx*dx+dy*dy+dz*dz,g=dt/(d*Math.sqrt(d));
		p.vx-=dx*q.m*g;p.vy-=dy*q.m*g;p.vz-=dz*q.m*g;q.vx+=dx*p.m*g;q.vy+=dy*p.m*g;q.vz+=dz*p.m*g}}for(i=0;i<5;i++){p=b[i];p.x+=dt*p.vx;p.y+=dt*p.vy;p.z+=dt*p.vz}}
		for(var i=0;i<10000;i++)adv(.01);var e=0;for(i=0;i<5;i++)e+=b[i].vx;String(e)`},
}

// guest is a QuickJS that evaluates source text.
type guest struct {
	mod   api.Module
	gauge *Gauge // nil: not metered
}

// newGuest starts wasm, which is quickjs.wasm, unchanged or instrumented.
func newGuest(t testing.TB, wasm []byte, c wazero.RuntimeConfig) *guest {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, c.WithCoreFeatures(Features))
	t.Cleanup(func() { _ = rt.Close(ctx) })
	compiled, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	// Every import returns zero, except that all files are bad descriptors.
	builders := map[string]wazero.HostModuleBuilder{}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		b := builders[module]
		if b == nil {
			b = rt.NewHostModuleBuilder(module)
			builders[module] = b
		}
		answer := uint64(0)
		if len(name) > 3 && name[:3] == "fd_" {
			answer = 8
		}
		results := len(f.ResultTypes())
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, s []uint64) {
			if results > 0 {
				s[0] = answer
			}
		}), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	m, err := rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{mod: m}
	if m.ExportedGlobal(FuelGlobal) != nil {
		if g.gauge, err = NewGauge(m); err != nil {
			t.Fatal(err)
		}
		g.gauge.Arm(1 << 62)
	}
	g.must(t, "_initialize")
	g.must(t, "qjs_init")
	g.must(t, "qjs_set_max_stack_size", 256<<10)
	return g
}

func (g *guest) call(name string, args ...uint64) (uint64, error) {
	r, err := g.mod.ExportedFunction(name).Call(context.Background(), args...)
	if err != nil || len(r) == 0 {
		return 0, err
	}
	return uint64(uint32(r[0])), nil
}

func (g *guest) must(t testing.TB, name string, args ...uint64) uint64 {
	t.Helper()
	v, err := g.call(name, args...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

func (g *guest) put(t testing.TB, s string) uint64 {
	p := g.must(t, "wasm_malloc", uint64(len(s)+1))
	if !g.mod.Memory().WriteString(uint32(p), s) || !g.mod.Memory().WriteByte(uint32(p)+uint32(len(s)), 0) {
		t.Fatal("out of the guest's memory")
	}
	return p
}

// eval returns the text of source's value, or the error that ended it.
func (g *guest) eval(t testing.TB, source string) (string, error) {
	code, file := g.put(t, source), g.put(t, "a.js")
	v, err := g.call("qjs_eval", code, uint64(len(source)), file, 0)
	if err != nil {
		return "", err
	}
	if g.must(t, "qjs_is_exception", v) != 0 {
		v = g.must(t, "qjs_get_exception")
		return "", fmt.Errorf("exception: %s", g.text(t, v))
	}
	return g.text(t, v), nil
}

func (g *guest) text(t testing.TB, v uint64) string {
	p := uint32(g.must(t, "qjs_get_string", v))
	var b []byte
	for {
		c, ok := g.mod.Memory().ReadByte(p)
		if !ok || c == 0 {
			return string(b)
		}
		b = append(b, c)
		p++
	}
}

// TestQuickjsBehavesTheSame runs programs on the unchanged and on the instrumented engine: results
// and the whole memory must be equal.
func TestQuickjsBehavesTheSame(t *testing.T) {
	t.Parallel()
	wasm := quickjs(t)
	out, _ := instrument(t, wasm, Options{Slice: 10_000})
	a, b := newGuest(t, wasm, wazero.NewRuntimeConfigCompiler()), newGuest(t, out, wazero.NewRuntimeConfigCompiler())
	for _, source := range auditSources {
		x, err1 := a.eval(t, source)
		y, err2 := b.eval(t, source)
		if x != y || trapText(err1) != trapText(err2) {
			t.Errorf("%.40s: original %.100q %v, metered %.100q %v", source, x, err1, y, err2)
		}
		if state(a.mod) != state(b.mod) {
			t.Fatalf("%.40s: the memories differ", source)
		}
	}
	if b.gauge.Used() == 0 {
		t.Error("nothing was charged")
	}
}
