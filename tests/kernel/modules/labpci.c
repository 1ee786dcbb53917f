// SPDX-License-Identifier: GPL-2.0-only
/*
 * labpci: lets an emulated PCI function pass for other hardware.
 *
 * QEMU has no GPU to offer, and its devices do not take another vendor's ids. Everything the kernel knows of an
 * identity it reads from configuration space, so this module answers those reads: it puts its own accessors on the
 * bus, patches the identity bytes on the way through, and has the functions removed and found again. What the kernel
 * then makes of them (sysfs, IOMMU groups, driver matching, virtual functions) is the kernel's own work.
 * Only the identity changes: BARs and behaviour stay those of the emulated device, so a real driver must never bind.
 *
 *   insmod labpci.ko identity=0000:01:00.0=10de:2235:030200:10de:145a:2236,0000:02:00.0=1002:74a1:120000:1002:74a1:0
 *
 *   address=vendor:device:class:subvendor:subdevice:vf_device, all in hex; vf_device 0 for a function without SR-IOV.
 */
#include <linux/module.h>
#include <linux/pci.h>

#define MAX_IDENTITIES 32

struct identity {
	unsigned int domain, bus_number, slot, function;
	unsigned int vendor, device, class, subvendor, subdevice, vf_device;
	int sriov; /* offset of the SR-IOV capability, 0 for none */
	struct pci_bus *bus;
	struct pci_ops *real; /* what the bus had before us; NULL unless this identity was the bus's first */
};

static char *identity[MAX_IDENTITIES];
static int given;
module_param_array(identity, charp, &given, 0444);
MODULE_PARM_DESC(identity, "address=vendor:device:class:subvendor:subdevice:vf_device");

static struct identity table[MAX_IDENTITIES];
static int count;

static struct pci_ops *real_ops(struct pci_bus *bus)
{
	int i;

	for (i = 0; i < count; i++)
		if (table[i].bus == bus && table[i].real)
			return table[i].real;
	return NULL;
}

/* The identity of a function; a card's virtual functions (same slot, own rows absent) follow their physical function. */
static const struct identity *identity_of(struct pci_bus *bus, unsigned int devfn)
{
	const struct identity *physical = NULL;
	int i;

	for (i = 0; i < count; i++) {
		const struct identity *id = &table[i];

		if (id->bus != bus || id->slot != PCI_SLOT(devfn))
			continue;
		if (id->function == PCI_FUNC(devfn))
			return id;
		if (id->sriov && id->vf_device)
			physical = id;
	}
	return physical;
}

static u8 patched(const struct identity *id, int where, u8 real)
{
	switch (where) {
	case PCI_VENDOR_ID:			return id->vendor;
	case PCI_VENDOR_ID + 1:			return id->vendor >> 8;
	case PCI_DEVICE_ID:			return id->device;
	case PCI_DEVICE_ID + 1:			return id->device >> 8;
	case PCI_CLASS_PROG:			return id->class;
	case PCI_CLASS_DEVICE:			return id->class >> 8;
	case PCI_CLASS_DEVICE + 1:		return id->class >> 16;
	case PCI_SUBSYSTEM_VENDOR_ID:		return id->subvendor;
	case PCI_SUBSYSTEM_VENDOR_ID + 1:	return id->subvendor >> 8;
	case PCI_SUBSYSTEM_ID:			return id->subdevice;
	case PCI_SUBSYSTEM_ID + 1:		return id->subdevice >> 8;
	}
	if (id->sriov && id->vf_device) {
		if (where == id->sriov + PCI_SRIOV_VF_DID)
			return id->vf_device;
		if (where == id->sriov + PCI_SRIOV_VF_DID + 1)
			return id->vf_device >> 8;
	}
	return real;
}

/* A function that is not there reads as all ones. A virtual function hides its ids so, but not its class. */
static bool absent(struct pci_ops *real, struct pci_bus *bus, unsigned int devfn)
{
	u32 class = ~0;

	return real->read(bus, devfn, PCI_CLASS_REVISION, 4, &class) || class == ~0u;
}

static int labpci_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct pci_ops *real = real_ops(bus);
	const struct identity *id = identity_of(bus, devfn);
	u32 patched_value = 0;
	int ret, i;

	if (!real)
		return PCIBIOS_DEVICE_NOT_FOUND;
	ret = real->read(bus, devfn, where, size, value);
	if (ret || !id || absent(real, bus, devfn))
		return ret;
	for (i = 0; i < size; i++)
		patched_value |= (u32)patched(id, where + i, *value >> (8 * i)) << (8 * i);
	*value = patched_value;
	return 0;
}

static int labpci_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct pci_ops *real = real_ops(bus);

	return real ? real->write(bus, devfn, where, size, value) : PCIBIOS_DEVICE_NOT_FOUND;
}

static struct pci_ops labpci_ops = { .read = labpci_read, .write = labpci_write };

/* Has the kernel forget the functions and find them again under the ids that are now read. */
static void find_again(void)
{
	int i;

	pci_lock_rescan_remove();
	for (i = count - 1; i >= 0; i--) {
		struct pci_dev *pdev = pci_get_slot(table[i].bus, PCI_DEVFN(table[i].slot, table[i].function));

		if (!pdev)
			continue;
		pci_stop_and_remove_bus_device(pdev);
		pci_dev_put(pdev);
	}
	for (i = 0; i < count; i++)
		pci_rescan_bus(table[i].bus);
	pci_unlock_rescan_remove();
}

static int __init labpci_init(void)
{
	int i;

	for (i = 0; i < given; i++) {
		struct identity *id = &table[count];
		struct pci_dev *pdev;

		if (sscanf(identity[i], "%x:%x:%x.%x=%x:%x:%x:%x:%x:%x", &id->domain, &id->bus_number, &id->slot, &id->function,
			   &id->vendor, &id->device, &id->class, &id->subvendor, &id->subdevice, &id->vf_device) != 10) {
			pr_err("labpci: cannot read identity %s\n", identity[i]);
			return -EINVAL;
		}
		pdev = pci_get_domain_bus_and_slot(id->domain, id->bus_number, PCI_DEVFN(id->slot, id->function));
		if (!pdev) {
			pr_err("labpci: no function for identity %s\n", identity[i]);
			return -ENODEV;
		}
		id->bus = pdev->bus;
		id->sriov = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_SRIOV);
		pci_dev_put(pdev);
		count++;
	}
	/* Nothing was changed so far: a bad row leaves the machine as it was. */
	for (i = 0; i < count; i++) {
		if (real_ops(table[i].bus))
			continue;
		table[i].real = table[i].bus->ops; /* before ours are asked, who answer from it */
		pci_bus_set_ops(table[i].bus, &labpci_ops);
	}
	find_again();
	return 0;
}

static void __exit labpci_exit(void)
{
	int i;

	for (i = 0; i < count; i++)
		if (table[i].real)
			pci_bus_set_ops(table[i].bus, table[i].real);
	find_again();
}

module_init(labpci_init);
module_exit(labpci_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Gives emulated PCI functions the identity of other hardware, for tests");
