#!/bin/sh
# Not run by us.  A Windows Server VM beside a kubeadm node, on one Linux machine with KVM: 16 GB, 4 cores, 100 GB.
# In this folder: server.iso (Microsoft's Evaluation Center), virtio-win.iso (fedorapeople.org), autounattend.xml with your password.
set -eu

# 1. The Windows VM: 40 minutes, unattended.  Then `virsh domifaddr win-1`, and ssh Administrator@ADDRESS.
genisoimage -quiet -J -o answers.iso autounattend.xml
virt-install --name win-1 --memory 8192 --vcpus 4 --os-variant win2k22 --noautoconsole --graphics vnc \
  --disk size=60,bus=virtio --network network=default,model=virtio \
  --disk server.iso,device=cdrom --disk virtio-win.iso,device=cdrom --disk answers.iso,device=cdrom --boot cdrom,hd

# 2. The Linux node: here, or in a VM of the same network (Ubuntu 24.04 with containerd and kubeadm).  kind works only if its
#    nodes' network is bridged to the VM's.
sudo kubeadm init --pod-network-cidr=10.244.0.0/16
kubectl create -f https://raw.githubusercontent.com/projectcalico/calico/v3.31.2/manifests/tigera-operator.yaml
kubectl apply -f - <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: kubernetes-services-endpoint, namespace: tigera-operator}
data: {KUBERNETES_SERVICE_HOST: "ADDRESS OF THIS NODE", KUBERNETES_SERVICE_PORT: "6443"}
---
apiVersion: operator.tigera.io/v1
kind: Installation
metadata: {name: default}
spec:
  serviceCIDRs: [10.96.0.0/12]
  calicoNetwork: {bgp: Disabled, windowsDataplane: HNS, ipPools: [{cidr: 10.244.0.0/16, encapsulation: VXLAN}]}
---
apiVersion: operator.tigera.io/v1
kind: APIServer
metadata: {name: default}
spec: {}
YAML
kubectl taint nodes --all node-role.kubernetes.io/control-plane- || true
kubectl patch ipamconfigurations default --type merge -p '{"spec": {"strictAffinity": true}}'

# 3. The Windows node, with kubernetes-sigs/sig-windows-tools/hostprocess:
#    .\Install-Containerd.ps1 -ContainerDVersion 1.7.24 ; .\PrepareNode.ps1 -KubernetesVersion v1.33.4 ; the line that the next command prints
kubeadm token create --print-join-command
#    Then calico/kube-proxy/kube-proxy.yml of the same folder, with the cluster's Kubernetes version as its image's tag.
#    For BGP: Install-WindowsFeature Routing -IncludeManagementTools there, and bgp: Enabled, encapsulation: None above.
