// SPDX-License-Identifier: GPL-2.0-only
/*
 * labgpu: stands in for a GPU vendor's driver on the functions that labpci made look like GPUs.
 *
 * It binds display and processing-accelerator functions of one vendor under a driver name of choice, enables virtual
 * functions when asked, and makes the functions it has types for parents of mediated devices with the rules
 * of the real thing: frame buffer is shared by all of a card (virtual functions included), one type per card at
 * a time unless told otherwise, and nothing left answers ENOSPC. The devices made are real vfio devices that a
 * guest can be given; they show an identity, a BAR of zeros and nothing else.
 *
 *   insmod labgpu.ko drvname=nvidia vendor=0x10de memory=1eb8=16384 "types=1eb8:223:GRID T4-2B:2048:8"
 *
 *   memory: device=MiB of frame buffer.      types: device:type:name:MiB:most on one function.      ids in hex
 *   fail_create (writable): errno that each creation answers from now on, 0 for none.
 */
#include <linux/mdev.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vfio.h>

#define MAX_ROWS 32
#define REGION_SHIFT 40
#define BAR0_SIZE (16u << 20) /* QEMU's quirks for NVIDIA display functions look into BAR 0 */

static char *drvname = "labgpu";
module_param(drvname, charp, 0444);
static uint vendor = 0x10de;
module_param(vendor, uint, 0444);
static bool homogeneous = true;
module_param(homogeneous, bool, 0444);
static uint fail_create;
module_param(fail_create, uint, 0644);
static char *memory[MAX_ROWS];
static int memory_rows;
module_param_array(memory, charp, &memory_rows, 0444);
static char *types[MAX_ROWS];
static int type_rows;
module_param_array(types, charp, &type_rows, 0444);

struct function;

struct type {
	struct mdev_type mdev; /* what the mdev core knows of it */
	struct function *function;
	unsigned int mib, most, used;
	char id[16], name[48];
};

/* One bound function. ``card`` is the physical function, itself for one: memory and the one-type rule are its. */
struct function {
	struct mdev_parent parent;
	struct pci_dev *pdev;
	struct function *card;
	unsigned int free_mib;
	char current_type[16]; /* of a card with instances */
	unsigned int instances;
	int count;
	bool registered;
	struct type types[MAX_ROWS];
	struct mdev_type *pointers[MAX_ROWS];
};

struct instance {
	struct vfio_device vfio;
	struct type *type;
	u8 config[256];
};

static DEFINE_MUTEX(books); /* over free_mib, current_type, instances and used of every card */

static unsigned int available_locked(struct type *type)
{
	struct function *card = type->function->card;
	int i;

	for (i = 0; homogeneous && i < type->function->count; i++)
		if (&type->function->types[i] != type && type->function->types[i].used)
			return 0;
	if (homogeneous && card->instances && strcmp(card->current_type, type->id))
		return 0;
	return min(card->free_mib / type->mib, type->most - type->used);
}

static int instance_init(struct vfio_device *vfio)
{
	struct instance *instance = container_of(vfio, struct instance, vfio);
	struct type *type = container_of(to_mdev_device(vfio->dev)->type, struct type, mdev);
	struct pci_dev *pdev = type->function->pdev;
	struct function *card = type->function->card;
	int ret = 0;

	mutex_lock(&books);
	if (fail_create) {
		ret = -(int)fail_create;
	} else if (!available_locked(type)) {
		ret = -ENOSPC;
	} else {
		card->free_mib -= type->mib;
		card->instances++;
		strscpy(card->current_type, type->id, sizeof(card->current_type));
		type->used++;
		instance->type = type;
	}
	mutex_unlock(&books);
	if (ret)
		return ret;
	*(__le16 *)&instance->config[PCI_VENDOR_ID] = cpu_to_le16(pdev->vendor);
	*(__le16 *)&instance->config[PCI_DEVICE_ID] = cpu_to_le16(pdev->device);
	instance->config[PCI_CLASS_DEVICE + 1] = PCI_BASE_CLASS_DISPLAY;
	return 0;
}

static void instance_release(struct vfio_device *vfio)
{
	struct instance *instance = container_of(vfio, struct instance, vfio);
	struct type *type = instance->type;

	mutex_lock(&books);
	type->function->card->free_mib += type->mib;
	type->function->card->instances--;
	type->used--;
	mutex_unlock(&books);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	vfio_free_device(vfio);
#endif
}

static ssize_t instance_access(struct vfio_device *vfio, char __user *to, const char __user *from, size_t size, loff_t *position)
{
	struct instance *instance = container_of(vfio, struct instance, vfio);
	u64 offset = *position & ((1ULL << REGION_SHIFT) - 1);
	u32 region = *position >> REGION_SHIFT;

	if (region == VFIO_PCI_BAR0_REGION_INDEX && offset + size <= BAR0_SIZE) {
		if (to && clear_user(to, size))
			return -EFAULT;
	} else if (region == VFIO_PCI_CONFIG_REGION_INDEX && offset + size <= sizeof(instance->config)) {
		if (to && copy_to_user(to, instance->config + offset, size))
			return -EFAULT;
		if (from && offset == PCI_COMMAND && copy_from_user(instance->config + offset, from, size))
			return -EFAULT;
	} else {
		return -EINVAL;
	}
	*position += size;
	return size;
}

static ssize_t instance_read(struct vfio_device *vfio, char __user *buffer, size_t size, loff_t *position)
{
	return instance_access(vfio, buffer, NULL, size, position);
}

static ssize_t instance_write(struct vfio_device *vfio, const char __user *buffer, size_t size, loff_t *position)
{
	return instance_access(vfio, NULL, buffer, size, position);
}

static long device_info(void __user *user)
{
	const size_t size = offsetofend(struct vfio_device_info, num_irqs);
	struct vfio_device_info info;

	if (copy_from_user(&info, user, size))
		return -EFAULT;
	if (info.argsz < size)
		return -EINVAL;
	info.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
	info.num_regions = VFIO_PCI_NUM_REGIONS;
	info.num_irqs = VFIO_PCI_NUM_IRQS;
	return copy_to_user(user, &info, size) ? -EFAULT : 0;
}

static long region_info(void __user *user)
{
	const size_t size = offsetofend(struct vfio_region_info, offset);
	struct vfio_region_info info;

	if (copy_from_user(&info, user, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_REGIONS)
		return -EINVAL;
	info.size = 0;
	if (info.index == VFIO_PCI_CONFIG_REGION_INDEX)
		info.size = sizeof(((struct instance *)NULL)->config);
	if (info.index == VFIO_PCI_BAR0_REGION_INDEX)
		info.size = BAR0_SIZE;
	info.flags = info.size ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0;
	info.offset = (u64)info.index << REGION_SHIFT;
	info.cap_offset = 0;
	return copy_to_user(user, &info, size) ? -EFAULT : 0;
}

static long irq_info(void __user *user)
{
	const size_t size = offsetofend(struct vfio_irq_info, count);
	struct vfio_irq_info info;

	if (copy_from_user(&info, user, size))
		return -EFAULT;
	if (info.argsz < size || info.index >= VFIO_PCI_NUM_IRQS)
		return -EINVAL;
	info.flags = VFIO_IRQ_INFO_EVENTFD;
	info.count = info.index == VFIO_PCI_REQ_IRQ_INDEX ? 1 : 0;
	return copy_to_user(user, &info, size) ? -EFAULT : 0;
}

static long instance_ioctl(struct vfio_device *vfio, unsigned int command, unsigned long argument)
{
	switch (command) {
	case VFIO_DEVICE_GET_INFO:		return device_info((void __user *)argument);
	case VFIO_DEVICE_GET_REGION_INFO:	return region_info((void __user *)argument);
	case VFIO_DEVICE_GET_IRQ_INFO:		return irq_info((void __user *)argument);
	case VFIO_DEVICE_SET_IRQS:
	case VFIO_DEVICE_RESET:			return 0;
	}
	return -ENOTTY;
}

static const struct vfio_device_ops instance_ops = {
	.name = "vfio-labgpu",
	.init = instance_init,
	.release = instance_release,
	.read = instance_read,
	.write = instance_write,
	.ioctl = instance_ioctl,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	.bind_iommufd = vfio_iommufd_emulated_bind,
	.unbind_iommufd = vfio_iommufd_emulated_unbind,
	.attach_ioas = vfio_iommufd_emulated_attach_ioas,
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	.detach_ioas = vfio_iommufd_emulated_detach_ioas,
#endif
};

static int instance_probe(struct mdev_device *mdev)
{
	struct instance *instance = vfio_alloc_device(instance, vfio, &mdev->dev, &instance_ops);
	int ret;

	if (IS_ERR(instance))
		return PTR_ERR(instance);
	ret = vfio_register_emulated_iommu_dev(&instance->vfio);
	if (ret) {
		vfio_put_device(&instance->vfio);
		return ret;
	}
	dev_set_drvdata(&mdev->dev, instance);
	return 0;
}

static void instance_remove(struct mdev_device *mdev)
{
	struct instance *instance = dev_get_drvdata(&mdev->dev);

	vfio_unregister_group_dev(&instance->vfio);
	vfio_put_device(&instance->vfio);
}

static unsigned int type_available(struct mdev_type *mdev)
{
	unsigned int available;

	mutex_lock(&books);
	available = available_locked(container_of(mdev, struct type, mdev));
	mutex_unlock(&books);
	return available;
}

static ssize_t type_description(struct mdev_type *mdev, char *buffer)
{
	struct type *type = container_of(mdev, struct type, mdev);

	return sysfs_emit(buffer, "num_heads=4, frl_config=45, framebuffer=%uM, max_resolution=5120x2880, max_instance=%u\n", type->mib, type->most);
}

static struct mdev_driver instance_driver = {
	.device_api = VFIO_DEVICE_API_PCI_STRING,
	.driver = { .name = "labgpu_mdev", .owner = THIS_MODULE, .mod_name = KBUILD_MODNAME },
	.probe = instance_probe,
	.remove = instance_remove,
	.get_available = type_available,
	.show_description = type_description,
};

static void read_memory(struct function *function)
{
	unsigned int device, mib;
	int i;

	for (i = 0; i < memory_rows; i++)
		if (sscanf(memory[i], "%x=%u", &device, &mib) == 2 && device == function->pdev->device)
			function->free_mib = mib;
}

static int read_types(struct function *function)
{
	unsigned int device;
	int i;

	for (i = 0; i < type_rows; i++) {
		struct type *type = &function->types[function->count];

		if (sscanf(types[i], "%x:%15[^:]:%47[^:]:%u:%u", &device, type->id, type->name, &type->mib, &type->most) != 5 || !type->mib) {
			dev_err(&function->pdev->dev, "cannot read type %s\n", types[i]);
			return -EINVAL;
		}
		if (device != function->pdev->device)
			continue;
		type->function = function;
		type->mdev.sysfs_name = type->id;
		type->mdev.pretty_name = type->name;
		function->pointers[function->count++] = &type->mdev;
	}
	return 0;
}

static int labgpu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct function *function = devm_kzalloc(&pdev->dev, sizeof(*function), GFP_KERNEL);
	int ret;

	if (!function)
		return -ENOMEM;
	function->pdev = pdev;
	function->card = function;
	if (pdev->is_virtfn)
		function->card = pci_get_drvdata(pci_physfn(pdev));
	if (!function->card)
		return -EPROBE_DEFER;
	read_memory(function);
	ret = read_types(function);
	if (ret)
		return ret;
	pci_set_drvdata(pdev, function);
	if (!function->count || pci_sriov_get_totalvfs(pdev)) /* a card with virtual functions offers types on those alone */
		return 0;
	ret = mdev_register_parent(&function->parent, &pdev->dev, &instance_driver, function->pointers, function->count);
	function->registered = !ret;
	return ret;
}

static void labgpu_remove(struct pci_dev *pdev)
{
	struct function *function = pci_get_drvdata(pdev);

	if (pci_num_vf(pdev))
		pci_disable_sriov(pdev);
	if (function->registered)
		mdev_unregister_parent(&function->parent);
}

static int labgpu_sriov_configure(struct pci_dev *pdev, int wanted)
{
	int ret;

	if (!wanted) {
		if (pci_vfs_assigned(pdev))
			return -EBUSY;
		pci_disable_sriov(pdev);
		return 0;
	}
	ret = pci_enable_sriov(pdev, wanted);
	return ret ? ret : wanted;
}

static struct pci_device_id functions[3]; /* filled in from the parameters; the last is the end mark */

static struct pci_driver labgpu_driver = {
	.id_table = functions,
	.probe = labgpu_probe,
	.remove = labgpu_remove,
	.sriov_configure = labgpu_sriov_configure,
};

static int __init labgpu_init(void)
{
	static const unsigned int classes[] = { PCI_BASE_CLASS_DISPLAY << 16, 0x120000 /* processing accelerators */ };
	int ret, i;

	for (i = 0; i < ARRAY_SIZE(classes); i++)
		functions[i] = (struct pci_device_id){ PCI_DEVICE(vendor, PCI_ANY_ID), .class = classes[i], .class_mask = 0xff0000 };
	labgpu_driver.name = drvname;
	ret = mdev_register_driver(&instance_driver);
	if (ret)
		return ret;
	ret = pci_register_driver(&labgpu_driver);
	if (ret)
		mdev_unregister_driver(&instance_driver);
	return ret;
}

static void __exit labgpu_exit(void)
{
	pci_unregister_driver(&labgpu_driver);
	mdev_unregister_driver(&instance_driver);
}

module_init(labgpu_init);
module_exit(labgpu_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stands in for a GPU vendor's driver, for tests");
