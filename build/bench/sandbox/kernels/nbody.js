const bodies = [];
for (let i = 0; i < 5; i++) bodies.push({ x: i * 1.1, y: i * 0.7 - 1, z: 0.3 * i, vx: 0.01 * i, vy: 0.02, vz: -0.01 * i, m: 1 / (i + 1) });
for (let step = 0; step < 20000; step++) {
  for (let i = 0; i < 5; i++) {
    const a = bodies[i];
    for (let j = i + 1; j < 5; j++) {
      const b = bodies[j];
      const dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
      const d2 = dx * dx + dy * dy + dz * dz + 0.01;
      const mag = 0.001 / (d2 * Math.sqrt(d2));
      a.vx -= dx * b.m * mag; a.vy -= dy * b.m * mag; a.vz -= dz * b.m * mag;
      b.vx += dx * a.m * mag; b.vy += dy * a.m * mag; b.vz += dz * a.m * mag;
    }
  }
  for (const b of bodies) { b.x += 0.001 * b.vx; b.y += 0.001 * b.vy; b.z += 0.001 * b.vz; }
}
return Math.round(bodies[0].x * 1e9);
