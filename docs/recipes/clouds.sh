#!/bin/sh
# Not run by us. Hybrid clusters in clouds: run the lines of one cluster; its last line removes the cluster again.

# Installs the operator, for AKS without --network-policy (kubernetesProvider AKS, cni AzureVNET; pods are on an l2bridge network,
# so a Windows pod admits traffic from its own node, XSVC-5) and for EKS (EKS, AmazonVPC):
operator() {
  kubectl create -f https://raw.githubusercontent.com/projectcalico/calico/v3.31.2/manifests/tigera-operator.yaml
  kubectl apply -f - <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: kubernetes-services-endpoint, namespace: tigera-operator}
data: {KUBERNETES_SERVICE_HOST: "$API_SERVER", KUBERNETES_SERVICE_PORT: "443"}
---
apiVersion: operator.tigera.io/v1
kind: Installation
metadata: {name: default}
spec:
  kubernetesProvider: $1
  cni: {type: $2}
  serviceCIDRs: [$SERVICE_CIDR]
  calicoNetwork: {bgp: Disabled, windowsDataplane: HNS}
---
apiVersion: operator.tigera.io/v1
kind: APIServer
metadata: {name: default}
spec: {}
YAML
}

# AKS, 15 minutes.
az group create -n lab -l westeurope
az aks create -g lab -n hybrid --network-plugin azure --network-policy calico --node-count 1 --node-vm-size Standard_D4s_v5 \
  --windows-admin-username azureuser --windows-admin-password "$PASSWORD" --generate-ssh-keys
az aks nodepool add -g lab --cluster-name hybrid -n win22 --os-type Windows --os-sku Windows2022 --node-count 1 --node-vm-size Standard_D4s_v5
az aks get-credentials -g lab -n hybrid -f admin.yaml
az group delete -n lab

# EKS, 25 minutes.
eksctl create cluster -f - <<YAML
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: hybrid, region: eu-west-1}
managedNodeGroups: [{name: linux, instanceType: m5.large, desiredCapacity: 1}]
YAML
kubectl apply -f - <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: amazon-vpc-cni, namespace: kube-system}
data: {enable-windows-ipam: "true"}
YAML
eksctl create nodegroup -f - <<YAML
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: hybrid, region: eu-west-1}
nodeGroups: [{name: windows, amiFamily: WindowsServer2022CoreContainer, instanceType: m5.xlarge, desiredCapacity: 1}]
YAML
operator EKS AmazonVPC
eksctl delete cluster hybrid

# CAPZ, 30 minutes, with a management cluster and the AZURE_ variables of its book.
clusterctl init --infrastructure azure
WINDOWS_WORKER_MACHINE_COUNT=1 clusterctl generate cluster hybrid --flavor windows --kubernetes-version v1.33.4 | kubectl apply -f -
helm install calico projectcalico/tigera-operator -n tigera-operator --create-namespace --set installation.calicoNetwork.windowsDataplane=HNS \
  -f https://raw.githubusercontent.com/kubernetes-sigs/cluster-api-provider-azure/main/templates/addons/calico/values.yaml
kubectl delete cluster hybrid

# RKE2: a server with "cni: calico" in /etc/rancher/rke2/config.yaml, a Linux agent, and the Windows agent by install.ps1.
