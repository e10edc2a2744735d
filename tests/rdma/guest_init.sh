#!/bin/sh
# The first process of an emulated machine. It loads the modules, brings up the network with a Soft-RoCE device on each
# of its ports, and then runs what the test asks for over a virtual serial port, one line each:
#   run ID         runs /host/jobs/ID/command in the background, as a process group of its own, its output to `output`
#                  beside it; says `ended ID CODE` when it has ended
#   kill ID SIGNAL sends the signal to that process group
# The kernel's command line sets the variables guest (its number, from 0), ports and mtu.
export PATH=/host/bin:/usr/bin:/bin HOME=/tmp TMPDIR=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir /dev/shm
mount -t tmpfs shm /dev/shm
now() { cut -d ' ' -f 1 /proc/uptime; }
echo "guest: kernel up at $(now) s"
while read -r module; do
  insmod "/modules/$module" || echo "guest: cannot load $module"
done </modules/order
echo "guest: modules loaded at $(now) s"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 host /host || echo "guest: no folder of the host"

number=$((guest + 1))
ip link set lo up
port=0
while [ "$port" -lt "$ports" ]; do
  # Nobody else is there who could have the address: it need not be asked for a second.
  echo 0 >/proc/sys/net/ipv6/conf/eth$port/accept_dad
  ip link set eth$port mtu "$mtu" up
  ip address add 10.9.$port.$number/24 dev eth$port
  ip address add fd09:0:0:$port::$number/64 dev eth$port
  rdma link add rxe$port type rxe netdev eth$port || echo "guest: no Soft-RoCE on eth$port"
  port=$((port + 1))
done
echo "guest: network up at $(now) s"

until [ -e /dev/vport0p1 ]; do usleep 10000; done
exec 3<>/dev/vport0p1
cd /tmp || exit
echo "ready $(now)" >&3
while read -r verb id signal <&3; do
  case $verb in
    run)
      (
        setsid sh "/host/jobs/$id/command" >"/host/jobs/$id/output" 2>&1 </dev/null 3>&- &
        echo $! >"/tmp/job$id"
        wait $!
        echo "ended $id $?" >&3
      ) &
      ;;
    kill) kill "-$signal" "-$(cat "/tmp/job$id")" ;;
  esac
done
